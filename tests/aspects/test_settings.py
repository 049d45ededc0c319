"""Settings: what is refused when an aspect is made, and what a TOML file can say."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Callable
from typing import Any

import pytest

import aspecthook.aspects
from aspecthook import AspecthookError, HookTypeError, weave
from aspecthook.aspects import Aspect, cached, limited, log, retry, span, timed, timeout

REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: cached(ttl=0), "cached: ttl=0; give a number above 0"),
    (lambda: cached(ttl="1"), "cached: ttl='1'; give a number"),  # type: ignore[arg-type]
    (lambda: cached(maxsize=0), "cached: maxsize=0; give a number above 0"),
    (lambda: cached(key=3), "cached: key=(3,); give names of arguments"),  # type: ignore[arg-type]
    (lambda: cached(key=[3]), "cached: key=[3]; give names of arguments"),  # type: ignore[list-item]
    (lambda: limited(2.5), "limited: rate=2.5; give a whole number"),  # type: ignore[arg-type]
    (lambda: limited(1, per=0), "limited: per=0; give a number above 0"),
    (lambda: limited(True), "limited: rate=True; give a whole number"),
    (lambda: log(level="WARN ING"), "log: level='WARN ING'; give a level such as 'INFO'; did you mean 'WARNING'?"),
    (lambda: log(redact=(3,)), "redact=3: give names such as 'token', or a predicate"),  # type: ignore[arg-type]
    (
        lambda: retry(on="builtins:ConectionError"),
        "retry: on='builtins:ConectionError' cannot be found (module 'builtins'",
    ),
    (lambda: retry(on=3), "retry: on=3; give exception types such as ConnectionError, or their names"),  # type: ignore[arg-type]
    (lambda: retry(on=["KeyError", "int"]), "retry: on=<class 'int'>; give exception types"),
    (lambda: retry(attempts=None), "retry: attempts=None without a timeout would try for ever; give one of the two"),
    (lambda: retry(wait=float("nan")), "retry: wait=nan; give a number from 0 up"),
    (lambda: span(kind="sever"), "span: kind='sever'; give one of internal, server, client, producer, consumer; did"),
    (lambda: timeout(0), "timeout: seconds=0; give a number above 0"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_wrong_settings_are_refused_in_one_line_when_the_aspect_is_made(
    make: Callable[[], object], message: str
) -> None:
    with pytest.raises(AspecthookError) as caught:
        make()
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


TOML = """
retry = { on = ["requests:ConnectionError", "TimeoutError"], attempts = 5, wait = 0.2, jitter = 0, timeout = 60 }
cached = { ttl = 60, maxsize = 1000, key = ["currency", "day"] }
limited = { rate = 10, per = 60, wait = false }
timeout = { seconds = 2.5 }
log = { logger = "structlog:get_logger", level = "debug", result = false, redact = ["*token*", "password"] }
timed = {}
span = { name = "price", arguments = true, redact = "token", kind = "client" }
"""


def test_every_aspect_can_be_made_from_plain_data_and_woven() -> None:
    async def rate(currency: str, day: str) -> float:
        return 1.1

    made = {name: getattr(aspecthook.aspects, name)(**given) for name, given in tomllib.loads(TOML).items()}
    makers = {name for name in aspecthook.aspects.__all__ if name.islower()}
    assert made.keys() == makers
    for name, aspect in made.items():
        assert isinstance(aspect, Aspect) and repr(aspect).startswith(f"{name}(")
        assert all(f"{setting}=" in repr(aspect) for setting in tomllib.loads(TOML)[name])
        with weave(rate, aspect=aspect):
            pass


def test_an_aspect_is_no_decorator() -> None:
    with pytest.raises(HookTypeError, match="'retry' is an around hook and no decorator; add it to a mount point"):
        retry()(len)


MISSING = """
import sys
sys.modules[{library!r}] = None
import aspecthook.aspects
try:
    aspecthook.aspects.{call}
except ModuleNotFoundError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("call", "library", "distribution"),
    [
        ("retry()", "tenacity", "tenacity"),
        ("cached()", "cachetools", "cachetools"),
        ("span()", "opentelemetry", "opentelemetry-api"),
    ],
)
def test_a_library_that_is_missing_is_named(call: str, library: str, distribution: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MISSING.format(call=call, library=library)], capture_output=True, text=True, check=True
    )
    name = call.partition("(")[0]
    assert done.stdout == f"aspecthook.aspects.{name} needs {library}; pip install {distribution}\n"


def test_making_one_aspect_loads_no_library_of_another() -> None:
    program = """
import sys
import aspecthook.aspects
from aspecthook.aspects import log, timed
log(), timed()
libraries = "tenacity cachetools anyio opentelemetry structlog asyncio".split()
print([name for name in libraries if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_state_of_an_aspect_goes_with_its_weaving() -> None:
    import gc
    import weakref

    def rate(currency: str) -> float:
        return 1.1

    aspects: list[Any] = [cached(), limited(10), retry(), timed()]
    for aspect in aspects:
        with weave(rate, aspect=aspect) as weaving:
            rate("EUR")
            [hook] = weaving.hooks
            made = weakref.ref(hook.function)
        del weaving, hook
        gc.collect()
        assert made() is None, aspect
