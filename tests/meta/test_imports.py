"""Who may import whom: the lines of the house, as ARCHITECTURE.md draws them."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(path for root in ("server", "analyzers") for path in (ROOT / root).rglob("*.py"))

FORBIDDEN = {
    "analyzers/drygrad/model.py": ("drygrad",),
    "analyzers/drygrad/static/": ("drygrad.lsp", "drygrad.cli", "drygrad.dryrun", "drygrad.worker"),
    "analyzers/drygrad/dryrun/": ("drygrad.lsp", "drygrad.cli", "drygrad.worker"),
    "analyzers/drygrad/": ("drygrad.lsp", "drygrad.cli", "pygls", "lsprotocol", "rich"),
    "server/drygrad/lsp/": ("drygrad.cli", "drygrad.worker", "rich"),
    "server/drygrad/": ("drygrad.worker", "torch"),
}


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield f"{node.module}"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_import_lines(path: Path) -> None:
    place = path.relative_to(ROOT).as_posix()
    names = set(imported(ast.parse(path.read_text(encoding="utf-8"))))
    for prefix, packages in FORBIDDEN.items():
        if place.startswith(prefix):
            assert [n for n in names for package in packages if within(n, package)] == []
    if place.startswith("analyzers/drygrad/worker/"):
        outside = {n.split(".")[0] for n in names} - set(sys.stdlib_module_names) - {"torch"}
        assert outside <= {"drygrad"}
        assert [n for n in names if within(n, "drygrad") and not within(n, "drygrad.worker")] == []
    else:
        assert [n for n in names if within(n, "torch")] == []


def test_the_namespace_has_two_roots_and_no_init() -> None:
    assert not list(ROOT.glob("*/drygrad/__init__.py"))
