"""Padding that counts in a loss: to be left out of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.dryrun.fixes.site import Site
from drygrad.model import Fix
from drygrad.static.editing import with_keyword
from drygrad.static.facts.values import Constant


def fixes(site: Site) -> Iterator[Fix | None]:
    """Yield the loss that is told what the padding is."""
    value, call = site.fact("value"), site.expression
    if site.finding.code != "DG319" or not isinstance(value, int) or not isinstance(call, ast.Call):
        return
    named = (name for name, known in site.ctx.facts.globals.items() if "pad" in name.lower() and _is(known, value))
    text = next(named, str(value))
    yield site.fix(f"Pass `ignore_index={text}`", with_keyword(site.ctx, call, "ignore_index", text))


def _is(known: object, value: int) -> bool:
    return isinstance(known, Constant) and known.value == value and not isinstance(known.value, bool)
