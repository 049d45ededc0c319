"""The forward of a module of PyTorch as a mount point: `torch.nn.Module.__call__` calls the `forward` that it looks up.

The invariant: our function is in the `__dict__` of the one module; calls of other modules cost nothing more.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from inspect import Parameter, getattr_static
from inspect import Signature as Parameters
from types import FunctionType, MethodType
from typing import Any, cast, final

from aspecthook._core.compile.copies import MARK
from aspecthook._core.compile.link import Codes
from aspecthook._core.law.callables import signature_of, type_of
from aspecthook._errors import WeaveError, qualified
from aspecthook._foreign.carrier import carrier
from aspecthook._foreign.places import ABSENT, Entry, write_entry

from ._carried import Module, ModuleSlot, known_point, label_of, space_of, without
from ._own import OwnMountPoint


@final
class ForwardSlot(ModuleSlot):
    """The name `forward` in the `__dict__` of a module."""

    __slots__ = ("_entry", "_flag", "bypassed")

    def __init__(self, module: Module, name: str, *, bypassed: bool) -> None:
        super().__init__(module, "forward", name)
        # Whether it is in a TransformerEncoderLayer, which calls it only if it has hooks of PyTorch's own.
        self.bypassed = bypassed
        self._flag: Any = None
        self._entry = Entry(self.module, "forward", ABSENT)

    def put(self, function: FunctionType) -> None:
        module = self.enroll(function)
        if module is None:
            return
        if not self._entry.opened:
            self._entry = Entry(self.module, "forward", space_of(module).get("forward", ABSENT))
        if self._entry.occupy(MethodType(function, module)):
            self.raise_flag()

    def raise_flag(self) -> None:
        """Make a `TransformerEncoderLayer` call the module."""
        module = self.module()
        if self.bypassed and self._flag is None and module is not None and self._entry.opened:
            self._flag = module.register_forward_pre_hook(_no_change)

    def leave(self) -> None:
        self._entry.leave()
        if self._flag is not None:
            self._flag.remove()
        self._flag = None
        self._entry.opened = False

    def is_displaced(self) -> bool:
        return self._entry.displaced

    def clean(self, space: dict[str, Any]) -> None:
        if self._entry.opened and self._entry.is_ours(space.get("forward")):
            write_entry(space, "forward", self._entry.before)
        if self._flag is not None:
            without(space, "_forward_pre_hooks", self._flag)


def _no_change(module: Module, args: object) -> None:
    """Do nothing, as a hook of PyTorch's own."""


def forward_point(module: Module, name: str, *, bypassed: bool) -> OwnMountPoint:
    """Return the mount point of the forward of one module."""
    found = known_point(module, "forward", name)
    if found is not None:
        slot = cast("ForwardSlot", found.slot)
        slot.bypassed = slot.bypassed or bypassed
        slot.raise_flag()
        return found
    model, reach = _forward_of(module, name)
    return OwnMountPoint(
        module,
        model,
        label_of(name, module),
        ForwardSlot(module, name, bypassed=bypassed),
        target=reach,
        provides={"module": "", "name": f"{MARK}.name"},
        codes=_codes.setdefault(module, {}),
    )


# When hooks come back, the same code comes back, and what `torch.compile` made of it stays valid.
_codes: weakref.WeakKeyDictionary[Any, Codes] = weakref.WeakKeyDictionary()


def _forward_of(module: Module, name: str) -> tuple[FunctionType, Callable[[], Callable[..., Any]]]:
    """Return a function with the parameters of a forward, and a function that returns the target of the chain."""
    cls, module_ref = type_of(module), weakref.ref(module)
    before = space_of(module).get("forward", ABSENT)
    if before is not ABSENT:
        inner = getattr(getattr(module, "_orig_mod", None), "forward", before)  # inside a wrapper of torch.compile
        model = carrier(before, _with_self(signature_of(inner)), f"{qualified(cls)}.forward", "function")
        return model, lambda: _without_self(module_ref)
    function: Any = getattr_static(cls, "forward")
    if not isinstance(function, FunctionType):
        raise WeaveError(
            f"{label_of(name, module)} cannot be woven: its forward is of type {type(function).__name__}, and no "
            f"Python function; weave the module that calls it"
        )
    if hasattr(cls, "recompile"):  # torch.fx replaces the forward of the class
        return function, lambda: _looked_up
    return function, lambda: function


def _looked_up(module: Any, /, *args: Any, **kwargs: Any) -> Any:
    return type_of(module).forward(module, *args, **kwargs)


def _without_self(module_ref: Callable[[], Module]) -> Callable[..., Any]:
    forward: Callable[..., Any] = space_of(module_ref())["forward"]

    def call(_: Any, /, *args: Any, **kwargs: Any) -> Any:
        return forward(*args, **kwargs)

    return call


def _with_self(signature: Parameters | None) -> Parameters:
    first = Parameter("self", Parameter.POSITIONAL_ONLY)
    if signature is None or "self" in signature.parameters:
        rest = (Parameter("args", Parameter.VAR_POSITIONAL), Parameter("kwargs", Parameter.VAR_KEYWORD))
        return Parameters([first, *rest])
    return Parameters([first, *signature.parameters.values()])
