"""Activations before losses that want none, or the logarithm of one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.dryrun.fixes.site import Site
from drygrad.model import Fix
from drygrad.static.editing import as_operand
from drygrad.static.rules.loss.readers import INVERSES, back, is_shared
from drygrad.static.syntax import argument

_WANT_LOGITS = {"DG304": "softmax", "DG305": "sigmoid"}
_WANT_LOGARITHMS = frozenset({"DG308", "DG311"})


def fixes(site: Site) -> Iterator[Fix | None]:
    """Yield the fix that takes the activation away, computes the logits back for the loss, or takes a logarithm."""
    call, activation = site.expression, _WANT_LOGITS.get(site.finding.code)
    if not isinstance(call, ast.Call):
        return
    if activation is not None:
        given = _input_of_loss(site, call)
        if given is None or not is_shared(site.ctx, given, call):
            yield _removed(site, call, activation)
        if given is not None:
            text = back(site.ctx, given, INVERSES[activation])
            yield site.fix("Convert the input back to logits", site.ctx.replace(given, text))
    elif site.finding.code in _WANT_LOGARITHMS:
        name = site.ctx.source_of(call.func)
        yield site.fix(
            "Use `log_softmax` instead", site.ctx.replace(call.func, re.sub(r"\bsoftmax$", "log_softmax", name))
        )


def _removed(site: Site, call: ast.Call, activation: str) -> Fix | None:
    """Return the fix that returns what an activation is applied to."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    known = site.ctx.call(call)
    if activation not in (name.lower(), known.operation if known is not None else None):
        return None
    plain = call.args[0] if len(call.args) == 1 and not call.keywords else None
    given = known.operand("input") if known is not None else plain
    edit = site.ctx.replace(call, as_operand(site.ctx, given)) if given is not None else None
    return site.fix("Remove the activation and return the logits", edit)


def _input_of_loss(site: Site, call: ast.Call) -> ast.expr | None:
    """Return what the loss is called with, where the finding stands there or names the place."""
    places = [at for message, at in site.fault.related if message.startswith("passed to ")]
    loss = site.expression_at(places[0]) if places else call if not site.fault.related else None
    return argument(loss, "input", 0) if isinstance(loss, ast.Call) else None
