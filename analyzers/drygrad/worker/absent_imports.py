"""Which modules the files of a program import that are not installed: all, since each would end the next run."""

from __future__ import annotations

import ast
import os
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Callable

from drygrad.worker.modules import third_party_folders

_MOST = 50
"""Files that are read; the first names of a large project are enough."""
_ENDS = (".py", f"{os.sep}__init__.py")


def absent_imports(files: Sequence[str], text_of: Callable[[str], str | None]) -> list[str]:
    """Return the modules that are not there, of those that files and their imports within the project need."""
    absent: dict[str, None] = {}
    waiting = list(dict.fromkeys(files))
    seen = set(waiting)
    while waiting and len(seen) < _MOST:
        path = waiting.pop(0)
        for level, name in _needed(text_of(path)):
            first = name.partition(".")[0]
            if not level and first and not is_there(first):
                absent[first] = None
            own = [each for each in _own_files(path, level, name) if each not in seen]
            seen.update(own)
            waiting += own
    return list(absent)


def is_there(name: str) -> bool:
    """Say whether a module without dots in its name was imported, or can be found."""
    if name in sys.modules:
        return True
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError, AttributeError):
        return False


def _needed(text: str | None) -> Iterator[tuple[int, str]]:
    """Yield the level and the dotted name of each import that a module cannot do without."""
    try:
        waiting: list[ast.stmt] = ast.parse(text or "").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in waiting:
        if isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module != "__future__":
            module = node.module or ""
            yield node.level, module
            yield from ((node.level, f"{module}.{alias.name}".lstrip(".")) for alias in node.names)


def _own_files(path: str, level: int, name: str) -> Iterator[str]:
    """Yield the files of the project behind a dotted name: the packages on the way, and the module."""
    folder = os.path.dirname(path)
    for _ in range(level - 1):
        folder = os.path.dirname(folder)
    if not level:
        first = name.partition(".")[0]
        origin = _origin(first)
        if origin is None or _is_installed(origin):
            return
        within = os.path.basename(origin) == "__init__.py"
        folder = os.path.dirname(os.path.dirname(origin) if within else origin)
    parts = name.split(".") if name else []
    for count in range(1, len(parts) + 1):
        module = os.path.join(folder, *parts[:count])
        yield from (module + end for end in _ENDS if os.path.isfile(module + end))


def _origin(name: str) -> str | None:
    try:
        spec = find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    return spec.origin if spec is not None else None


def _is_installed(origin: str) -> bool:
    standard = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    return not origin.endswith(".py") or origin.startswith((*third_party_folders(), *standard))
