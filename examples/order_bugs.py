"""Three systems that work in one order and not in another: `aspecthook.testing` finds the order, in a few lines each.

A data cleaner is a list of plain functions, a web application has a middleware stack, and a training run has tricks
that change gradients. Each step by itself is correct. Look for

- `make`: the system as one function, whose hooks are its parts. A plain function of one positional-only parameter is a
  post hook as it is. If a system takes a list, as Starlette does, a pre hook adds to it (`joins`);
- `law`: what must be true in every order. One of the laws compares two runs, with and without a trick;
- the repaired systems: `before=` and `after=` fix what the order of adding must not decide.

After `pip install '.[testing,train]' starlette httpx`, run `python examples/order_bugs.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from aspecthook import Args, hookable
from aspecthook.testing import Candidate, HookMachine, LawError, Trace, law

try:
    import httpx
    import numpy as np
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.base import BaseHTTPMiddleware
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    from aspecthook.training import Hook, Runner
    from aspecthook.training.data import ArrayDataset, DataLoader
    from aspecthook.training.numpy import SGD, Linear, cross_entropy, manual_seed
except ImportError as error:
    sys.exit(f"This example needs more ({error}): python -m pip install '.[testing,train]' starlette httpx")


# A data cleaner made of plain functions.


def drop_empty(rows: list[str], /) -> list[str]:
    return [row for row in rows if row]


def drop_duplicates(rows: list[str], /) -> list[str]:
    return list(dict.fromkeys(rows))


def strip(rows: list[str], /) -> list[str]:
    return [row.strip() for row in rows]


def lower(rows: list[str], /) -> list[str]:
    return [row.lower() for row in rows]


ROWS = ["Ann", "ann", "", " ", "Bob"]


class Cleaning(HookMachine):
    candidates = tuple(Candidate("post", step) for step in (drop_empty, strip, drop_duplicates, lower))
    arguments = st.just(((ROWS,), {}))

    def make(self) -> Any:
        @hookable
        def clean(rows: list[str]) -> list[str]:
            return rows

        return clean

    @law
    @staticmethod
    def no_row_is_empty(trace: Trace) -> bool:
        return not trace.ran("drop_empty") or "" not in trace.result

    @law
    @staticmethod
    def no_row_is_there_twice(trace: Trace) -> bool:
        return not trace.ran("drop_duplicates") or len(trace.result) == len(set(trace.result))


class CleaningRepaired(Cleaning):
    candidates = (
        Candidate("post", drop_empty, after="strip"),
        Candidate("post", strip),
        Candidate("post", drop_duplicates, after=["strip", "lower"]),
        Candidate("post", lower),
    )


# A middleware stack.


class Auth(BaseHTTPMiddleware):
    async def dispatch(self, request: Any, call_next: Any) -> Any:
        if request.headers["user"] != "ann":
            return PlainTextResponse("not for you", 403)
        return await call_next(request)


class Cache(BaseHTTPMiddleware):
    def __init__(self, app: Any) -> None:
        super().__init__(app)
        self.pages: dict[str, tuple[bytes, int]] = {}

    async def dispatch(self, request: Any, call_next: Any) -> Any:
        path = request.url.path
        if path not in self.pages:
            response = await call_next(request)
            self.pages[path] = b"".join([part async for part in response.body_iterator]), response.status_code
        return PlainTextResponse(*self.pages[path])


class Timing(BaseHTTPMiddleware):
    async def dispatch(self, request: Any, call_next: Any) -> Any:
        response = await call_next(request)
        response.headers["server-timing"] = "total"
        return response


async def orders(request: Any) -> Any:
    return PlainTextResponse("Ann's orders")


def joins(name: str, member: type[Any]) -> Callable[..., Args]:
    """Return a pre hook that adds a member to a list that is an argument."""
    return lambda call: Args(**{name: (*call.arguments[name], member)})


class Serving(HookMachine):
    candidates = tuple(Candidate("pre", joins("stack", one), name=one.__name__) for one in (Timing, Cache, Auth))
    arguments = st.just(((["ann", "bob"],), {}))

    def make(self) -> Any:
        @hookable
        async def visits(users: Sequence[str], stack: Sequence[Any] = ()) -> list[str]:
            app = Starlette(routes=[Route("/orders", orders)], middleware=[Middleware(one) for one in stack])
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://shop") as client:
                return [(await client.get("/orders", headers={"user": user})).text for user in users]

        return visits

    @law
    @staticmethod
    def bob_does_not_see_anns_orders(trace: Trace) -> bool:
        return not trace.ran("Auth") or "Ann" not in trace.result[1]


class ServingRepaired(Serving):
    candidates = (
        Candidate("pre", joins("stack", Timing), name="Timing"),
        Candidate("pre", joins("stack", Cache), name="Cache"),
        Candidate("pre", joins("stack", Auth), name="Auth", before="Cache"),
    )


# A training run.


class LossScale(Hook):
    """Multiplies the loss by 1024, as half precision needs larger gradients, and divides the gradients again."""

    def before_backward(self, loss: Any) -> Args:
        return Args(loss=loss * 1024.0)

    def before_optimizer_step(self, model: Any) -> None:
        for parameter in model.parameters():
            parameter.grad = parameter.grad / 1024.0


class Clip(Hook):
    """Limits the length of each gradient to 0.1."""

    def before_optimizer_step(self, model: Any) -> None:
        for parameter in model.parameters():
            parameter.grad = parameter.grad / max(np.linalg.norm(parameter.grad) / 0.1, 1.0)


class Decay(Hook):
    """Lets the gradients pull the weights towards zero."""

    def before_optimizer_step(self, model: Any) -> None:
        for parameter in model.parameters():
            parameter.grad = parameter.grad + 0.01 * parameter.data


TRICKS: dict[str, type[Hook]] = {"Decay": Decay, "Clip": Clip, "LossScale": LossScale}


def trained(tricks: Sequence[type[Hook]]) -> list[float]:
    """Train a small model, and return its weights."""
    manual_seed(0)
    points = np.random.default_rng(0).normal(size=(32, 2))
    data = DataLoader(ArrayDataset(points, (points.sum(axis=1) > 0).astype(int)), batch_size=8)
    model = Linear(2, 2)
    runner = Runner(model, optimizer=SGD(model.parameters(), lr=0.1), loss=cross_entropy, max_epochs=1, seed=0)
    for trick in tricks:
        runner.register_hook(trick())
    runner.fit(data)
    weights: list[float] = model.weight.data.ravel().tolist()
    return weights


class Training(HookMachine):
    candidates = tuple(Candidate("pre", joins("tricks", trick), name=name) for name, trick in TRICKS.items())
    arguments = st.just(((), {}))

    def make(self) -> Any:
        @hookable
        def train(tricks: Sequence[type[Hook]] = ()) -> list[float]:
            return trained(tricks)

        return train

    @law
    @staticmethod
    def scaling_the_loss_changes_no_weight(trace: Trace) -> bool:
        others = [TRICKS[name] for name in trace.names if name in TRICKS and name != "LossScale"]
        return trace.result == trained(others)


class TrainingRepaired(Training):
    candidates = (
        Candidate("pre", joins("tricks", Decay), name="Decay"),
        Candidate("pre", joins("tricks", Clip), name="Clip"),
        Candidate("pre", joins("tricks", LossScale), name="LossScale", before=["Decay", "Clip"]),
    )


SYSTEMS = {Cleaning: CleaningRepaired, Serving: ServingRepaired, Training: TrainingRepaired}


def main() -> None:
    for system, repaired in SYSTEMS.items():
        try:
            system.TestCase().runTest()
        except LawError as error:
            print(error, *error.__notes__, sep="\n")
        repaired.TestCase().runTest()
        print(f"{repaired.__name__}: the law holds.\n")


if __name__ == "__main__":
    main()
