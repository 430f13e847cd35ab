"""Inputs from a call in another file of the workspace: a test, a script that imports the module."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from drygrad.dryrun.inputs.call_site import CallSites, Found, first_buildable, fits
from drygrad.dryrun.slicing import Imports
from drygrad.dryrun.targets import Target, definitions
from drygrad.static.source import Source, SourceError


@dataclass(frozen=True)
class Caller:
    """A file that uses the target: its text, and the path that it is shown by.

    ``names`` are what it calls the target's definition at top level, ``module`` what it imports the target's file as.
    """

    path: Path
    shown: str
    source: Source
    names: tuple[str, ...]
    module: str


def find_call_elsewhere(tree: ast.Module, target: Target, callers: tuple[Caller, ...]) -> tuple[Caller, Found] | None:
    """Return the first call in other files whose inputs can be built; ``tree`` is the target's own."""
    for caller in callers:
        try:
            found = _found_in(caller, tree, target)
        except SourceError:
            continue
        if found is not None:
            return caller, found
    return None


def _found_in(caller: Caller, tree: ast.Module, target: Target) -> Found | None:
    imports = Imports(caller.source.tree)
    for name in caller.names:
        sites = CallSites(caller.source, imports, _known_as(name, tree, target))
        fitting = (site for site in sites.of(target.function, target.owner) if fits(site, target))
        found = first_buildable(fitting, frozenset(), imports)
        if found.site is not None:
            return replace(found, site=found.site.told_from(caller.shown))
    return None


def _known_as(name: str, tree: ast.Module, target: Target) -> Mapping[str, ast.stmt]:
    """Return what a definition at top level, and those in it, are called by who calls it by a name."""
    top = str(target.qualname).partition(".")[0]

    def known() -> Iterator[tuple[str, ast.stmt]]:
        for qualname, node in definitions(tree.body):
            first, dot, rest = qualname.partition(".")
            if first == top:
                yield f"{name}{dot}{rest}", node

    return dict(known())
