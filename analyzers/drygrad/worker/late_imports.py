"""Modules that are changed as soon as they are imported: now, where they already are."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any, Callable

Change = Callable[[Any], None]


def when_imported(changes: dict[str, Change]) -> None:
    """Change modules, known by their dotted names, once their own code has run."""
    for name, change in changes.items():
        module = sys.modules.get(name)
        if module is not None:
            change(module)
    sys.meta_path.insert(0, _Late(changes))


class _Late(MetaPathFinder):
    def __init__(self, changes: dict[str, Change]) -> None:
        self._changes = changes

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> Any:
        """Find such a module as Python does; it is changed after its own code ran."""
        change = self._changes.get(fullname)
        spec = PathFinder.find_spec(fullname, path) if change is not None else None
        loader: Any = spec.loader if spec is not None else None
        if change is None or loader is None:
            return None
        execute = loader.exec_module

        def execute_and_change(module: ModuleType) -> None:
            execute(module)
            change(sys.modules.get(fullname, module))  # some modules put another object in their place

        loader.exec_module = execute_and_change
        return spec
