"""Files that torch.load refuses: plain numbers where they are saved, trust where they are loaded."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.dryrun.fixes.site import Site
from drygrad.model import Fix
from drygrad.static.editing import with_keyword


def fixes(site: Site) -> Iterator[Fix | None]:
    """Yield fixes of the statement that saves, then of the one that loads."""
    if site.finding.code != "DG805" or site.statement is None:
        return
    related = [site.statement_at(at.line) for _, at in site.fault.related if at.path == site.path]
    places = [site.statement, *(statement for statement in related if statement is not None)]
    if "scalar" in str(site.fact("kind")):
        for statement in places:
            yield from _plain_numbers(site, statement)
    for statement in places:
        for call in site.expressions(statement):
            if isinstance(call, ast.Call) and site.ctx.name(call.func) == "torch.load":
                edit = with_keyword(site.ctx, call, "weights_only", "False")
                yield site.fix("Pass `weights_only=False` if you trust the file (loading may run code)", edit)


def _plain_numbers(site: Site, statement: ast.stmt) -> Iterator[Fix | None]:
    """Yield what is saved with one of its values made a number of Python's."""
    for saved in site.expressions(statement):
        values = saved.values if isinstance(saved, ast.Dict) else []
        for value in values:
            if isinstance(value, (ast.Name, ast.Attribute, ast.Subscript)):
                text = site.ctx.source_of(value)
                yield site.fix(f"Save a plain number: `float({text})`", site.ctx.replace(value, f"float({text})"))
