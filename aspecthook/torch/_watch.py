"""Watches: what hooks have collected of modules while a model runs, by the names of the modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from aspecthook._core.law.options import Options
from aspecthook.weave import Names, Weaving, weave

T = TypeVar("T")


class Watch(Mapping[str, T]):
    """Results by the names of modules. A context manager: the hooks are removed at the end of the block."""

    weaving: Weaving | None = None

    def __init__(self) -> None:
        # Any: what each watch collects of a module, of which `__getitem__` makes the result.
        self.collected: dict[str, Any] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self.collected)

    def __len__(self) -> int:
        return len(self.collected)

    # Any: a hook asks for any arguments by name.
    def begin(self, model: Any, names: Names | None, note: Callable[..., None], options: Options) -> Self:
        """Put the hooks on."""
        self.weaving = weave(model, names, post=note, **options)
        return self

    def remove(self) -> None:
        """Remove the hooks. What was collected stays."""
        if self.weaving is not None:
            self.weaving.remove()

    def __enter__(self) -> Self:
        if self.weaving is not None:
            self.weaving.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.weaving is not None:
            self.weaving.__exit__(kind, error, trace)
