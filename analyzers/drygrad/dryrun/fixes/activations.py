"""Activations before losses that want none, or the logarithm of one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.dryrun.fixes.site import Site
from drygrad.model import Fix
from drygrad.static.editing import as_operand

_WANT_LOGITS = frozenset({"DG304", "DG305"})
_WANT_LOGARITHMS = frozenset({"DG308", "DG311"})


def fixes(site: Site) -> Iterator[Fix | None]:
    """Yield the fix that takes the activation away, or takes its logarithm."""
    call = site.expression
    if not isinstance(call, ast.Call):
        return
    if site.finding.code in _WANT_LOGITS:
        given = _given(site, call)
        if given is not None:
            yield site.fix(
                "Return the logits: remove the activation", site.ctx.replace(call, as_operand(site.ctx, given))
            )
    elif site.finding.code in _WANT_LOGARITHMS:
        name = site.ctx.source_of(call.func)
        yield site.fix("Use log_softmax", site.ctx.replace(call.func, re.sub(r"\bsoftmax$", "log_softmax", name)))


def _given(site: Site, call: ast.Call) -> ast.expr | None:
    """Return what an activation is applied to."""
    known = site.ctx.call(call)
    if known is not None:
        return known.operand("input")
    return call.args[0] if len(call.args) == 1 and not call.keywords else None
