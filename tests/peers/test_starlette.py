"""Starlette's middleware against its documentation: the order of entering and leaving, answers and exceptions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

pytest.importorskip("starlette")

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from .beside import Boom, Layers, peer_test, story_of

SCOPE = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b""}


async def receive() -> dict[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


async def text_of(app: Any) -> str:
    """Make one request and give the body of the response."""
    sent: list[str] = []

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            sent.append(message["body"].decode())

    await app(dict(SCOPE), receive, send)
    return next(filter(None, sent))


class Stack(Layers):
    """Middleware of either sort, in the list that the application is made with."""

    def start(self) -> None:
        self.order: list[list[str]] = []

    def join(self, name: str) -> Any:
        self.order.append([name])
        return self.order[-1]

    def leave(self, joined: Any) -> None:
        self.order = [one for one in self.order if one is not joined]

    def app(self) -> Starlette:
        return Starlette(routes=[self.route()], middleware=[self.middleware(name) for [name] in self.order])

    def route(self) -> Route:
        async def endpoint(request: Any) -> Any:
            return PlainTextResponse(self.spot())

        return Route("/", endpoint)

    def act(self) -> Any:
        return self.wait_for(text_of(self.app()))

    def documented(self, names: list[str]) -> Any:
        return self.nested(names)

    def middleware(self, name: str) -> Middleware:
        return self.based(name)

    def based(self, name: str) -> Middleware:
        async def dispatch(request: Any, call_next: Callable[[Any], Any]) -> Any:
            self.ran.append(f"{name} begins")
            if name == "answers":
                return PlainTextResponse(name)
            if name == "raises":
                raise Boom(name)
            try:
                made = await call_next(request)
            except Boom as error:
                self.ran.append(f"{name} sees {error}")
                if name == "recovers":
                    return PlainTextResponse(name)
                raise
            self.ran.append(f"{name} ends")
            if name == "fails":
                raise Boom(name)
            return made

        return Middleware(BaseHTTPMiddleware, dispatch=dispatch)

    def plain(self, name: str) -> Middleware:
        def made(app: Any) -> Any:
            async def layer(scope: Any, receive: Any, send: Any) -> None:
                self.ran.append(f"{name} begins")
                if name == "answers":
                    return await PlainTextResponse(name)(scope, receive, send)
                if name == "raises":
                    raise Boom(name)
                try:
                    await app(scope, receive, send)
                except Boom as error:
                    self.ran.append(f"{name} sees {error}")
                    if name == "recovers":
                        return await PlainTextResponse(name)(scope, receive, send)
                    raise
                self.ran.append(f"{name} ends")
                if name.endswith("fails"):
                    raise Boom(name)

            return layer

        return Middleware(made)


class PlainStack(Stack):
    """Plain ASGI middleware sends its response itself: what was sent first is what the client gets."""

    def middleware(self, name: str) -> Middleware:
        return self.plain(name)

    def answer(self, name: str) -> str:
        self.sent.append(name)
        return name

    sent: ClassVar[list[str]] = []

    def documented(self, names: list[str]) -> Any:
        self.sent.clear()
        self.nested(names)
        return self.sent[0]


class LastWins(PlainStack):
    """What the outermost middleware answers is what the client gets."""

    def documented(self, names: list[str]) -> Any:
        return self.nested(names)


class MixedStack(Stack):
    """Plain middleware inside of a BaseHTTPMiddleware: each ends after what it lies around."""

    members: ClassVar[dict[str, dict[str, Any]]] = {"a": {}, "b": {}, "plain": {}}

    def middleware(self, name: str) -> Middleware:
        return self.plain(name) if name.startswith("plain") else self.based(name)


class RecoveringStack(MixedStack):
    """Errors bubble through the entire middleware stack as exceptions, and so through a `try` around call_next."""

    members: ClassVar[dict[str, dict[str, Any]]] = {"recovers": {}, "plain_fails": {}}

    def layer(self, name: str, proceed: Callable[[], Any]) -> Any:
        made = super().layer(name, proceed)
        if name == "plain_fails":
            raise Boom(name)
        return made


class AddedStack(Stack):
    """The first one that is added is the outermost."""

    def app(self) -> Starlette:
        app = Starlette(routes=[self.route()])
        for [name] in self.order:
            middleware = self.middleware(name)
            app.add_middleware(middleware.cls, *middleware.args, **middleware.kwargs)
        return app


class AddedLastIsOutermost(AddedStack):
    """In truth the last one is."""

    def documented(self, names: list[str]) -> Any:
        return self.nested(reversed(names))


TestStack = peer_test(Stack)
TestPlainStack = peer_test(PlainStack)
TestAddedLastIsOutermost = peer_test(AddedLastIsOutermost)


@pytest.mark.parametrize(
    ("machine", "steps"),
    [
        (AddedStack, ["state.add('pre a')", "state.add('pre answers')"]),
        (LastWins, ["state.add('pre recovers')", "state.add('pre fails')"]),
        (MixedStack, ["state.add('pre a')", "state.add('pre plain')"]),
        (RecoveringStack, ["state.add('pre recovers')", "state.add('pre plain_fails')"]),
    ],
)
def test_the_shortest_story_on_starlette(machine: type[Stack], steps: list[str]) -> None:
    assert story_of(machine).splitlines()[:-2] == steps


def test_an_http_exception_that_a_middleware_raises_is_not_turned_into_its_response() -> None:
    """The client gets status 500, and the server the exception: the layer that would turn it is the innermost."""

    async def dispatch(request: Any, call_next: Any) -> Any:
        raise HTTPException(403)

    app = Starlette(middleware=[Middleware(BaseHTTPMiddleware, dispatch=dispatch)])
    with pytest.raises(HTTPException):
        asyncio.run(text_of(app))


def test_no_middleware_can_be_added_after_the_first_request() -> None:
    app = Starlette(routes=[PlainStack().route()])
    assert asyncio.run(text_of(app)) == "spot"
    with pytest.raises(RuntimeError, match="after an application has started"):
        app.add_middleware(BaseHTTPMiddleware)
