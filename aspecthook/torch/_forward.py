"""The forward of a module of PyTorch as a mount point: `torch.nn.Module.__call__` calls the `forward` that it looks up.

The invariant: our function is in the `__dict__` of the one module; calls of other modules cost nothing more.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from inspect import Parameter, getattr_static
from inspect import Signature as Parameters
from types import CodeType, FunctionType, MethodType
from typing import Any, cast, final

from aspecthook._core.compile.copies import MARK
from aspecthook._core.law.callables import signature_of, type_of
from aspecthook._core.law.signature import is_plain
from aspecthook._errors import WeaveError, qualified
from aspecthook._foreign.carrier import carrier

from ._carried import ABSENT, Module, ModuleSlot, known_point, label_of, put_back, space_of, without
from ._own import OwnMountPoint


@final
class ForwardSlot(ModuleSlot):
    """The name `forward` in the `__dict__` of a module."""

    __slots__ = ("_before", "_flag", "_function", "_left", "bypassed")

    def __init__(self, module: Module, name: str, *, bypassed: bool) -> None:
        super().__init__(module, "forward", name)
        # Whether it is in a TransformerEncoderLayer, which calls it only if it has hooks of PyTorch's own.
        self.bypassed = bypassed
        self._flag: Any = None
        self._before: Any = ABSENT
        self._function: FunctionType | None = None
        # Our function, if somebody else's had replaced it when the hooks were removed.
        self._left: FunctionType | None = None

    def put(self, function: FunctionType) -> None:
        module = self.enroll(function)
        if module is None:
            return
        space = space_of(module)
        if self._function is None:
            self._before, self._left = space.get("forward", ABSENT), None
        elif not self._stands(space):
            return  # somebody else's has replaced ours, and may call it
        self._function = function
        space["forward"] = MethodType(function, module)
        self.raise_flag()

    def raise_flag(self) -> None:
        """Make a `TransformerEncoderLayer` call the module."""
        module = self.module()
        if self.bypassed and self._flag is None and module is not None and self._function is not None:
            self._flag = module.register_forward_pre_hook(_no_change)

    def leave(self) -> None:
        module = self.module()
        if module is not None and self._function is not None:
            if self._stands(space_of(module)):
                put_back(space_of(module), "forward", self._before)
            else:
                self._left = self._function
        if self._flag is not None:
            self._flag.remove()
        self._function = self._flag = None
        self._before = ABSENT if self._left is None else self._before

    def is_displaced(self) -> bool:
        module = self.module()
        if module is None:
            return False
        if self._function is not None:
            return not self._stands(space_of(module))
        if self._left is None:
            return False
        now = space_of(module).get("forward", ABSENT)
        if _holds(now, self._left):  # they have put ours back since
            put_back(space_of(module), "forward", self._before)
            now = self._before
        if now is self._before:
            self._left, self._before = None, ABSENT
        return self._left is not None

    def clean(self, space: dict[str, Any]) -> None:
        if self._stands(space):
            put_back(space, "forward", self._before)
        if self._flag is not None:
            without(space, "_forward_pre_hooks", self._flag)

    def _stands(self, space: dict[str, Any]) -> bool:
        return self._function is not None and _holds(space.get("forward"), self._function)


def _no_change(module: Module, args: object) -> None:
    """Do nothing, as a hook of PyTorch's own."""


def _holds(value: object, function: FunctionType) -> bool:
    return isinstance(value, MethodType) and value.__func__ is function


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
        lends={"module": "", "name": f"{MARK}.name"},
        codes=_codes_of(module),
    )


# By the module's id. When hooks come back, the same code comes back, and what `torch.compile` made of it stays valid.
_codes: dict[int, tuple[weakref.ref[Any], dict[int, CodeType]]] = {}


def _codes_of(module: Module) -> dict[int, CodeType]:
    key = id(module)
    held = _codes.get(key)
    if held is None or held[0]() is not module:
        gone = weakref.ref(module, lambda reference: _forget(key, reference))
        held = _codes[key] = (gone, {})
    return held[1]


def _forget(key: int, reference: object, codes: dict[int, Any] = _codes) -> None:
    # `codes` is a default, since modules are emptied in any order as the interpreter ends.
    held = codes.get(key)
    if held is not None and held[0] is reference:
        del codes[key]


def _forward_of(module: Module, name: str) -> tuple[FunctionType, Callable[[], Callable[..., Any]]]:
    """Return a function with the parameters of a forward, and a function that returns the target of the chain."""
    cls, seen = type_of(module), weakref.ref(module)
    before = space_of(module).get("forward", ABSENT)
    if before is not ABSENT:
        inner = getattr(getattr(module, "_orig_mod", None), "forward", before)  # inside a wrapper of torch.compile
        return _model(before, _with_self(signature_of(inner)), cls), lambda: _without_self(seen)
    function: Any = getattr_static(cls, "forward")
    if not isinstance(function, FunctionType):
        raise WeaveError(
            f"{label_of(name, module)} cannot be woven: its forward is of type {type(function).__name__}, and no "
            f"Python function; weave the module that calls it"
        )
    if hasattr(cls, "recompile"):  # torch.fx replaces the forward of the class
        return function, lambda: _looked_up
    if function.__dict__.keys() & {"__wrapped__", "__signature__"}:
        return _model(function, signature_of(function), cls), lambda: function
    return function, lambda: function


def _model(forward: Callable[..., Any], signature: Parameters | None, cls: type[Any]) -> FunctionType:
    label = f"{qualified(cls)}.forward"
    return carrier(forward, signature, label, "function")[0]


def _looked_up(module: Any, /, *args: Any, **kwargs: Any) -> Any:
    return type_of(module).forward(module, *args, **kwargs)


def _without_self(seen: Callable[[], Module]) -> Callable[..., Any]:
    forward: Callable[..., Any] = space_of(seen())["forward"]

    def call(_: Any, /, *args: Any, **kwargs: Any) -> Any:
        return forward(*args, **kwargs)

    return call


def _with_self(signature: Parameters | None) -> Parameters:
    first = Parameter("self", Parameter.POSITIONAL_ONLY)
    if signature is None or "self" in signature.parameters or not all(map(is_plain, signature.parameters)):
        rest = (Parameter("args", Parameter.VAR_POSITIONAL), Parameter("kwargs", Parameter.VAR_KEYWORD))
        return Parameters([first, *rest])
    return Parameters([first, *signature.parameters.values()])
