"""Each kind of hook, on a plain function, with every form of answer; the hook is given back as it was."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import NoReturn, assert_type

from aspecthook import Args, Call, Return, hookable


@hookable
def price(item: str, qty: int = 1) -> float:
    if not item:
        raise KeyError(item)
    return qty * 2.0


@hookable
def find(item: str) -> str | None:
    return item or None


# pre


@price.pre
def look(item: str) -> None:
    assert isinstance(item, str)


@price.pre
def at_least_one(qty: int) -> Args:
    return Args(qty=max(qty, 1))


@price.pre
def free(item: str) -> Return[float] | None:
    return Return(0.0) if item == "air" else None


@price.pre(priority="LOW", name="any of them")
def one_of_three(item: str, qty: int) -> Args | Return[float] | None:
    return None


find.pre(free)  # one hook for functions with different results
assert price("tea", 0) == 2.0
assert price("air") == 0.0


# post


@price.post
def note(result: float) -> None:
    assert result >= 0


@price.post
def with_tax(result: float) -> float:
    return result * 2


@price.post
def if_negative(result: float) -> Return[float] | None:
    return Return(0.0) if result < 0 else None


assert price("tea", 6) == 24.0


# A post hook of a function that may give None answers None to leave the result, Return(None) to replace it.
@find.post
def hide(result: str | None) -> Return[str | None] | None:
    return Return(None) if result == "secret" else None


assert_type(find("secret"), str | None)
assert find("secret") is None
assert find("tea") == "tea"


# exception


@price.exception
def report(exc: Exception) -> None:
    assert exc.args is not None


@price.exception(KeyError)
def unknown(exc: KeyError, item: str) -> Return[float] | None:
    return None


@price.exception(KeyError, (OSError, ValueError), priority=60)
def handled(exc: Exception) -> Return[float]:
    return Return(-1.0)


@price.exception((TypeError, ZeroDivisionError))
def translate(exc: Exception) -> NoReturn:
    raise ValueError from exc


assert price("") == -1.0


# around


@price.around
def twice(proceed: Callable[[], float]) -> float:
    return proceed() + proceed()


@price.around
def watched() -> Generator[None, float, None]:
    result = yield
    assert result >= 0


@price.around(priority="HIGHEST")
def one_more() -> Generator[None, float, float]:
    result = yield
    return result + 1


price.hooks.clear()


# always


@price.always
def count(result: float | None, exc: BaseException | None) -> int:
    return 1


@price.always(isolate=True)
def never_seen(call: Call) -> None:
    raise ValueError


price.hooks.remove(never_seen)
assert_type(count(None, None), int)


# Other callables, and options in the same call.


def times(factor: float, result: float) -> float:
    return result * factor


price.post(partial(times, 2.0))
price.always(print, when=lambda qty: qty > 100)
assert price("tea") == 4.0
