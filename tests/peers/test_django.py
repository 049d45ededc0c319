"""Django's signals and its middleware against their documentation: the order of a call, and what exceptions become."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, ClassVar

import pytest

pytest.importorskip("django")

from django.conf import settings
from django.core.handlers.base import BaseHandler
from django.dispatch import Signal
from django.http import HttpResponse
from django.test import RequestFactory
from django.urls import path

from .beside import BesidePeer, Boom, Layers, peer_test, story_of

# Signals

ANN = "ann"


class Signals(BesidePeer):
    """Receivers are called in the order in which they were connected, but the async ones after the others, at once."""

    members: ClassVar[dict[str, dict[str, Any]]] = {"a": {}, "for_ann": {}, "async_a": {}, "async_b": {}}

    def start(self) -> None:
        self.signal = Signal()

    def join(self, name: str) -> Any:
        def receiver(**named: Any) -> None:
            self.ran += [f"{name} begins", f"{name} ends"]

        async def waiting(**named: Any) -> None:
            self.ran.append(f"{name} begins")
            await asyncio.sleep(0)
            self.ran.append(f"{name} ends")

        joined: Callable[..., Any] = waiting if name.startswith("async") else receiver
        sender = ANN if name == "for_ann" else None
        self.signal.connect(joined, sender=sender, weak=False)
        return joined, sender

    def leave(self, joined: Any) -> None:
        assert self.signal.disconnect(*joined)

    def act(self) -> None:
        self.signal.send(ANN)

    def documented(self, names: list[str]) -> None:
        late = [name for name in names if name.startswith("async")]
        for name in names:
            if name not in late:
                self.ran += [f"{name} begins", f"{name} ends"]
        self.ran += [f"{name} begins" for name in late] + [f"{name} ends" for name in late]


class InOrderOfConnecting(Signals):
    """Receiver functions are called in the order they were registered."""

    def documented(self, names: list[str]) -> None:
        self.ran += [f"{name} {does}" for name in names for does in ("begins", "ends")]


class OneAtATime(Signals):
    """Receiver functions are called one at a time."""

    def documented(self, names: list[str]) -> None:
        order = sorted(names, key=lambda name: name.startswith("async"))
        self.ran += [f"{name} {does}" for name in order for does in ("begins", "ends")]


class Failing(BesidePeer):
    """`send` ends at the first receiver that raises."""

    members: ClassVar[dict[str, dict[str, Any]]] = {"a": {}, "b": {}, "raises": {}}

    def start(self) -> None:
        self.signal = Signal()

    def join(self, name: str) -> Any:
        def receiver(**named: Any) -> None:
            self.receive(name)

        self.signal.connect(receiver, weak=False)
        return receiver

    def receive(self, name: str) -> None:
        self.ran.append(name)
        if name == "raises":
            raise Boom(name)

    def leave(self, joined: Any) -> None:
        assert self.signal.disconnect(joined)

    def act(self) -> Any:
        self.signal.send(None)

    def documented(self, names: list[str]) -> Any:
        for name in names:
            self.receive(name)


class FailingRobustly(Failing):
    """`send_robust` calls them all, and what one raises is its answer."""

    def act(self) -> Any:
        return [str(answer) for _, answer in self.signal.send_robust(None)]

    def documented(self, names: list[str]) -> Any:
        self.ran += names
        return ["raises" if name == "raises" else "None" for name in names]


TestSignals = peer_test(Signals)
TestFailing = peer_test(Failing)
TestFailingRobustly = peer_test(FailingRobustly)


def test_a_receiver_that_is_disconnected_in_a_send_is_still_called_and_a_new_one_is_not() -> None:
    signal, ran = Signal(), list[str]()

    def first(**named: Any) -> None:
        ran.append("first")
        signal.disconnect(second)
        signal.connect(third)

    def second(**named: Any) -> None:
        ran.append("second")

    def third(**named: Any) -> None:
        ran.append("third")

    signal.connect(first)
    signal.connect(second)
    signal.send(None)
    assert ran == ["first", "second"]


def test_of_two_receivers_with_one_dispatch_uid_the_first_stays() -> None:
    signal = Signal()
    signal.connect(lambda **named: "old", weak=False, dispatch_uid="one")
    signal.connect(lambda **named: "new", weak=False, dispatch_uid="one")
    assert [answer for _, answer in signal.send(None)] == ["old"]


# Middleware

MIDDLEWARE = "peer_django_middleware"
URLS = "peer_django_urls"


urls: Any = ModuleType(URLS)
urls.urlpatterns = [path("", lambda request: request.peer.view())]
urls.handler500 = lambda request: HttpResponse("500", status=500)
sys.modules[URLS] = urls
if not settings.configured:
    settings.configure(ROOT_URLCONF=URLS, TEMPLATES=[], ALLOWED_HOSTS=["*"])
# It logs what becomes a response.
logging.getLogger("django").setLevel(logging.CRITICAL + 1)


class Stack(Layers):
    """The first of the list is the outermost; what one raises becomes a response before the next one sees it."""

    def start(self) -> None:
        self.order: list[list[str]] = []

    def join(self, name: str) -> Any:
        self.order.append([name])
        return self.order[-1]

    def leave(self, joined: Any) -> None:
        self.order = [one for one in self.order if one is not joined]

    def act(self) -> Any:
        made = ModuleType(MIDDLEWARE)
        paths = [f"layer{number}" for number in range(len(self.order))]
        vars(made).update(zip(paths, [self.factory(name) for [name] in self.order], strict=True))
        sys.modules[MIDDLEWARE] = made
        settings.MIDDLEWARE = [f"{MIDDLEWARE}.{name}" for name in paths]
        handler = BaseHandler()
        handler.load_middleware()
        request: Any = RequestFactory().get("/")
        request.peer = self
        return handler.get_response(request).content.decode()

    def view(self) -> Any:
        return HttpResponse(self.spot())

    def factory(self, name: str) -> Any:
        def made(get_response: Callable[[Any], Any]) -> Any:
            def middleware(request: Any) -> Any:
                return HttpResponse(self.layer(name, lambda: get_response(request).content.decode()))

            return middleware

        return made

    def converted(self, proceed: Callable[[], Any]) -> Any:
        try:
            return proceed()
        except Boom:
            return "500"

    def documented(self, names: list[str]) -> Any:
        first, *rest = [*names, ""]
        return self.converted(lambda: self.layer(first, lambda: self.documented(rest[:-1])) if first else self.spot())


class TryAroundGetResponse(Stack):
    """A `try` around get_response sees what is raised inside."""

    def documented(self, names: list[str]) -> Any:
        return self.converted(lambda: self.nested(names))


class Views(Stack):
    """`process_view` in order, then the view, which raises; then `process_exception` in the reverse order."""

    members: ClassVar[dict[str, dict[str, Any]]] = {
        "a": {},
        "b": {},
        "view_answers": {},
        "view_raises": {},
        "handles": {},
    }

    def view(self) -> Any:
        self.ran.append("spot")
        raise Boom("spot")

    def factory(self, name: str) -> Any:
        peer = self

        class Middleware:
            def __init__(self, get_response: Callable[[Any], Any]) -> None:
                self.get_response = get_response

            def __call__(self, request: Any) -> Any:
                return HttpResponse(peer.layer(name, lambda: self.get_response(request).content.decode()))

            def process_view(self, request: Any, view: Any, args: Any, kwargs: Any) -> Any:
                answer = peer.before_view(name)
                return answer and HttpResponse(answer)

            def process_exception(self, request: Any, exception: Exception) -> Any:
                answer = peer.handle(name, exception)
                return answer and HttpResponse(answer)

        return Middleware

    def before_view(self, name: str) -> str | None:
        self.ran.append(f"{name} before the view")
        if name == "view_raises":
            raise Boom(name)
        return name if name == "view_answers" else None

    def handle(self, name: str, error: Exception) -> str | None:
        self.ran.append(f"{name} is given {error}")
        return name if name == "handles" else None

    def documented(self, names: list[str]) -> Any:
        self.ran += [f"{name} begins" for name in names]
        made = self.converted(lambda: self.core(names))
        self.ran += [f"{name} ends" for name in reversed(names)]
        return made

    def core(self, names: list[str]) -> Any:
        for name in names:
            answer = self.before_view(name)
            if answer is not None:
                return answer
        self.ran.append("spot")
        return self.handled(names, Boom("spot"))

    def handled(self, names: list[str], error: Boom) -> str:
        for name in reversed(names):
            answer = self.handle(name, error)
            if answer is not None:
                return answer
        return "500"


class ExceptionOfProcessView(Views):
    """`process_exception` is given what `process_view` raises, too."""

    def core(self, names: list[str]) -> Any:
        try:
            return super().core(names)
        except Boom as error:
            return self.handled(names, error)


TestStack = peer_test(Stack)
TestViews = peer_test(Views)


@pytest.mark.parametrize(
    ("machine", "steps"),
    [
        (InOrderOfConnecting, ["state.add('pre async_a')", "state.add('pre a')"]),
        (OneAtATime, ["state.add('pre async_a')", "state.add('pre async_b')"]),
        (TryAroundGetResponse, ["state.add('pre a')", "state.add('pre raises')"]),
        (ExceptionOfProcessView, ["state.add('pre view_raises')"]),
    ],
)
def test_the_shortest_story_on_django(machine: type[BesidePeer], steps: list[str]) -> None:
    assert story_of(machine).splitlines()[:-2] == steps
