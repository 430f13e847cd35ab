"""What stands for torch's compiler until somebody needs more of it than that it stays away.

Optimizers and checkpoints import it at their first use, which takes as long as importing torch; and nothing is compiled
in a dry run. All that they want of it is here. Whoever asks for anything else gets the compiler itself.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any, Callable

COMPILER = "torch._dynamo"
_SETTINGS = "config"
"""A part of the compiler that checkpoints read at each call, and that needs nothing else of it."""


class _Idle(ModuleType):
    """The module of the compiler, as far as it breaks graphs and disables itself."""

    @staticmethod
    def graph_break(*_: Any, **__: Any) -> None:
        """Break no graph, for there is none."""

    @staticmethod
    def is_compiling() -> bool:
        """Say that nothing is being compiled."""
        return False

    @staticmethod
    def disable(fn: Any = None, recursive: bool = True, **_: Any) -> Any:
        """Return a function as it is: it is not compiled."""
        return _unchanged if fn is None else fn

    def __getattr__(self, name: str) -> Any:
        """Return anything else from the compiler; ``__path__`` is what the import of a part of it asks for."""
        if name.startswith("__") and name != "__path__":
            raise AttributeError(name)
        settings = _settings() if name == _SETTINGS else None
        return settings if settings is not None else getattr(awakened(), name)


def _settings() -> ModuleType | None:
    """Return the settings of the compiler, which it finds in their place should it be imported later."""
    name = f"{COMPILER}.{_SETTINGS}"
    known = sys.modules.get(name)
    own = sys.modules[COMPILER].__spec__
    if known is not None or own is None or not own.submodule_search_locations:
        return known
    spec = PathFinder.find_spec(name, own.submodule_search_locations)
    if spec is None or spec.loader is None:
        return None
    made = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def install() -> None:
    """Let this stand in the compiler's place, unless that was imported."""
    torch: Any = sys.modules["torch"]
    spec = None if COMPILER in sys.modules else importlib.util.find_spec(COMPILER)
    if spec is None:
        return
    idle = _Idle(COMPILER, "torch's compiler, which is not active")
    idle.__spec__, idle.__file__, idle.__package__ = spec, spec.origin, COMPILER
    sys.modules[COMPILER] = torch._dynamo = idle


def is_awake() -> bool:
    """Say whether the compiler itself has been imported."""
    return not isinstance(sys.modules.get(COMPILER, None), (_Idle, type(None)))


def awakened() -> ModuleType:
    """Return the compiler itself, imported now at the latest."""
    if not is_awake():
        sys.modules.pop(COMPILER, None)
    return importlib.import_module(COMPILER)


def _unchanged(function: Callable[..., Any]) -> Callable[..., Any]:
    return function
