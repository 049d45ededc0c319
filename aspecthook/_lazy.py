"""Public names that are loaded when they are first asked for, so that importing a package stays fast."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from ._hints import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from types import TracebackType

# Libraries that somebody may have left out, by the names under which they are imported.
_OPTIONAL = ("anyio", "autograd", "cachetools", "hypothesis", "numpy", "opentelemetry", "pytest", "tenacity", "torch")


@final
class NamesTheLibrary:
    """A block of imports: if a library is not installed, the error says how to install it.

    Where such blocks are nested, the error names the user of the outermost, which is what the program has asked for.
    It is a class, as `contextlib` would be one more module that `import aspecthook` loads.
    """

    __slots__ = ("_user",)

    def __init__(self, user: str) -> None:
        self._user = user

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        missing = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
        if missing in _OPTIONAL:
            library = "opentelemetry-api" if missing == "opentelemetry" else missing
            text = f"{self._user} needs {missing}; pip install {library}"
            raise ModuleNotFoundError(text, name=missing) from None


def load_lazily(package: str, homes: Mapping[str, str]) -> None:
    """Set the `__getattr__` (PEP 562) of a package, which loads its public names from other modules.

    It is not assigned in the package, where a type checker would see it, and take every misspelt name for one that may
    be there.

    Args:
        package: The package's `__name__`.
        homes: For each module, relative to the package (``"loop._runner"``), the names in it, separated by spaces.
    """
    modules = {name: home for home, names in homes.items() for name in names.split()}

    def load(name: str) -> Any:  # any public name of the package
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = f"{package}.{modules[name]}"
        with NamesTheLibrary(f"{package}.{name}"):
            __import__(home)  # `importlib`, which would do it as well, loads `warnings`
        found = getattr(sys.modules[home], name)
        setattr(sys.modules[package], name, found)  # the next look-up finds it without this function
        return found

    module = sys.modules[package]
    setattr(module, "__getattr__", load)
    setattr(module, "__dir__", lambda: sorted({*modules, *_public(vars(module))}))


def _public(space: Mapping[str, object]) -> list[str]:
    """Return the names of a package that users may use: those of its ``__all__``, its modules, and the special ones."""
    listed: Any = space["__all__"]
    special = [name for name in space if name.startswith("__")]
    return [*listed, *special, *[name for name, one in space.items() if type(one) is type(sys) and name[:1] != "_"]]
