"""Begin to record or to weave in a process of `aspecthook`; then run the `sitecustomize` that this one hides.

Python imports it as it starts, since its folder comes first on PYTHONPATH. Nothing need be installed in the environment
of the program: the package is loaded from where this file is.
"""

from __future__ import annotations

import sys
from importlib import import_module, machinery, util
from os import environ, path

_HERE = path.dirname(path.abspath(__file__))
_PACKAGE = path.dirname(path.dirname(_HERE))


def _leave_path() -> None:
    """Take the folder out of the path, so that the program finds what it finds without us."""
    sys.path[:] = [one for one in sys.path if path.abspath(one or ".") != _HERE]
    sys.path_importer_cache.pop(_HERE, None)


def _is_main_interpreter() -> bool:
    """Whether this is not a subinterpreter, in which Python runs this module too."""
    for name in ("_interpreters", "_xxsubinterpreters"):  # the second one up to 3.12
        try:
            interpreters = import_module(name)
        except ImportError:
            continue
        return bool(interpreters.get_current() == interpreters.get_main())
    return True


def _load_package() -> None:
    if "aspecthook" in sys.modules:
        return
    spec = util.spec_from_file_location(
        "aspecthook", path.join(_PACKAGE, "__init__.py"), submodule_search_locations=[_PACKAGE]
    )
    if spec is not None and spec.loader is not None:
        module = sys.modules["aspecthook"] = util.module_from_spec(spec)
        spec.loader.exec_module(module)


def _run_hidden() -> None:
    """Run the `sitecustomize` of the environment; if there is none, fail as Python expects it then."""
    spec = machinery.PathFinder.find_spec("sitecustomize")
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError("No module named 'sitecustomize'", name="sitecustomize")
    module = sys.modules["sitecustomize"] = util.module_from_spec(spec)
    spec.loader.exec_module(module)


_leave_path()
if "ASPECTHOOK_PROGRAM" in environ and _is_main_interpreter():
    _load_package()
    import_module("aspecthook.cli._begin").begin(environ["ASPECTHOOK_PROGRAM"])
_run_hidden()
