"""Changes to modules that are imported later, if at all."""

from __future__ import annotations

import importlib.util
import sys
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any, Callable

Change = Callable[[Any], None]


class Late(MetaPathFinder):
    """Applies a change to a module right after its own code ran."""

    def __init__(self) -> None:
        self.waiting: dict[str, Change] = {}

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> Any:
        """Find the module as it would be found without us, and make its loader apply the change."""
        change = self.waiting.pop(fullname, None)
        if change is None:
            return None
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def execute_and_change(module: ModuleType) -> None:
                execute(module)
                change(module)

            loader.exec_module = execute_and_change
        return spec


_late = Late()


def after_import(name: str, change: Change) -> None:
    """Apply a change to a module, now if it is there, else when it is imported."""
    if name in sys.modules:
        change(sys.modules[name])
        return
    if _late not in sys.meta_path:
        sys.meta_path.insert(0, _late)
    _late.waiting[name] = change
