"""Which files the import statements of a text lead to."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from drygrad.static.lookup.modules import Module, Modules, module_at


def files_imported(modules: Modules, origin: Path, tree: ast.AST) -> Iterator[Path]:
    """Yield the files that a text imports directly, the packages on the way among them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for top, *names in (alias.name.split(".") for alias in node.names):
                yield from _files(modules, modules.find(top, origin), names)
        elif isinstance(node, ast.ImportFrom):
            yield from _from(modules, origin, node)


def _from(modules: Modules, origin: Path, node: ast.ImportFrom) -> Iterator[Path]:
    names = node.module.split(".") if node.module else []
    if node.level:
        start = _package(origin, node.level)
    else:
        start, names = modules.find(names[0], origin), names[1:]
    for alias in node.names:
        yield from _files(modules, start, [*names, alias.name])


def _package(origin: Path, level: int) -> Module | None:
    package = module_at(origin).package
    for _ in range(level - 1):
        package = package.parent if package else None
    return package


def _files(modules: Modules, module: Module | None, names: list[str]) -> Iterator[Path]:
    """Yield the files on the way through a package to a submodule; a last name may be no module, but in one."""
    while module is not None:
        if module.path is not None:
            yield module.path
        if not names:
            return
        module, names = modules.submodule(module, names[0]), names[1:]
