"""Whose module is it? Third-party ones are imported ahead; the workspace's are read at each run, buffers first."""

from __future__ import annotations

import ast
import os
import re
import site
import sys
import sysconfig
from collections.abc import Iterator
from functools import lru_cache
from importlib.machinery import PathFinder
from typing import Any

from drygrad.worker import idle_compiler

_MENTIONS = re.compile(
    r"checkpoint|compile|dynamo|functorch|\bfunc\b|nested|profile|\bexport\b|fsdp|\b_subclasses\b|\bcond\b"
    r"|flex_attention",
    re.IGNORECASE,
)
"""What parts of torch are called that use its compiler."""
_OF_OBJECTS = frozenset(("compile", "gradient_checkpointing_enable"))
"""Methods of modules that do."""


def needs_compiler(plan: dict[str, Any]) -> bool:
    """Say whether the run may come to torch's compiler, by its text: then it is imported ahead."""
    return any(map(_uses_compiler, _texts(plan)))


def _uses_compiler(text: str) -> bool:
    """Say whether a program names such a part of torch; strings, comments and other names say nothing."""
    if not _MENTIONS.search(text):
        return False
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    bound = dict(_bindings(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            root, path = _dotted(node)
            whole = f"{bound[root]}.{path}" if root in bound else ""
            if _is_of_compiler(whole) or (not whole and node.attr in _OF_OBJECTS):
                return True
    return any(map(_is_of_compiler, (*bound.values(), *imported_names(tree))))


def _is_of_compiler(name: str) -> bool:
    return name.startswith(("torch", "functorch")) and _MENTIONS.search(name) is not None


def _bindings(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield what each import binds: a name, and what it is in full."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (top, top)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)


def _dotted(node: ast.Attribute) -> tuple[str, str]:
    """Return the name at which a chain of attributes begins, empty where there is none, and the attributes."""
    parts = [node.attr]
    value = node.value
    while isinstance(value, ast.Attribute):
        parts.insert(0, value.attr)
        value = value.value
    return (value.id if isinstance(value, ast.Name) else ""), ".".join(parts)


def _texts(plan: dict[str, Any]) -> list[str]:
    """Return the texts that a plan executes first: the target's, and that of the program that calls it."""
    program: dict[str, Any] | None = plan.get("program")
    return [plan["text"], *([program["text"]] if program is not None else [])]


def import_compiler() -> None:
    """Import torch's compiler; a run that needs it will say what is missing."""
    try:
        idle_compiler.awakened()
    except Exception as error:  # noqa: BLE001 - whatever a broken torch raises
        print(f"{idle_compiler.COMPILER} cannot be imported ahead: {error!r}", file=sys.stderr)


def third_party_imports(plan: dict[str, Any]) -> set[str]:
    """Return the installed modules that the plan's texts import and this process has not, torch's own included."""
    own_path = [str(entry) for entry in plan.get("sys_path") or ()]
    wanted = {name for text in _texts(plan) for name in _imported_by(text)} - set(sys.modules)
    return {name for name in wanted if _is_third_party(name.partition(".")[0], own_path)}


def _imported_by(text: str) -> Iterator[str]:
    try:
        yield from imported_names(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return


def imported_names(tree: ast.AST) -> Iterator[str]:
    """Yield the absolute module names of all import statements."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module and node.module != "__future__":
            yield node.module


def _is_third_party(name: str, own_path: list[str]) -> bool:
    if name in sys.builtin_module_names or name in getattr(sys, "stdlib_module_names", ()):
        return False
    if any(os.path.exists(os.path.join(entry, name + end)) for entry in own_path for end in (".py", "")):
        return False
    spec = PathFinder.find_spec(name)
    origin = (spec.origin or "") if spec else ""
    return origin.startswith(third_party_folders())


def folders_around(path: str, root: str) -> list[str]:
    """Return the folders from which a program may be run: those around it, up to the project's."""
    found: list[str] = []
    folder = os.path.dirname(os.path.abspath(path))
    root = os.path.abspath(root)
    while folder == root or folder.startswith(os.path.join(root, "")):
        found.append(folder)
        folder = os.path.dirname(folder)
    return found


def forget_shadowed(own_path: list[str]) -> None:
    """Forget installed modules that modules of the workspace have the same name as: the workspace comes first."""
    for entry in own_path:
        for name in os.listdir(entry) if os.path.isdir(entry) else ():
            stem = name[:-3] if name.endswith(".py") else name
            own = name.endswith(".py") or os.path.isfile(os.path.join(entry, name, "__init__.py"))
            loaded = sys.modules.get(stem)
            file = str(getattr(loaded, "__file__", None) or "")
            its_own = os.path.realpath(os.path.dirname(file)) in map(
                os.path.realpath, (entry, os.path.join(entry, stem))
            )
            # Where the workspace is the folder of installed modules, these stay: some cannot be loaded twice.
            if own and not its_own and file.startswith(third_party_folders()) and stem not in ("torch", "drygrad"):
                for known in [known for known in sys.modules if known == stem or known.startswith(stem + ".")]:
                    del sys.modules[known]


@lru_cache(maxsize=1)
def third_party_folders() -> tuple[str, ...]:
    """Return the folders where installed packages stand, with a final separator."""
    torch: Any = sys.modules.get("torch")
    places = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()}
    places.add(site.getusersitepackages())
    if torch is not None:
        places.add(os.path.dirname(os.path.dirname(torch.__file__)))
    return tuple(os.path.join(place, "") for place in places if place)
