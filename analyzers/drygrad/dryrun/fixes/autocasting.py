"""Mixed precision that reaches too far, or not far enough: backward under autocast, and float16 without a scaler."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.dryrun.fixes.site import Site
from drygrad.model import Fix
from drygrad.static.editing import moved_across, put_under, with_keyword, written_as
from drygrad.static.facts.contexts import AUTOCAST
from drygrad.static.rules.training.autocasting import autocast_blocks
from drygrad.static.syntax import called

_DEVICES = frozenset({"cpu", "cuda", "mps", "xpu"})


def fixes(site: Site) -> Iterator[Fix | None]:
    """Yield fixes of autocast around a backward, or before one that is not scaled."""
    if site.finding.code == "DG707" and site.statement is not None:
        yield from _called_behind(site)
        yield _switched_off(site, site.statement)
    elif site.finding.code == "DG724":
        yield from _in_bfloat16(site)


def _called_behind(site: Site) -> Iterator[Fix | None]:
    """Yield the call of the function around backward() behind the autocast block that it ends."""
    blocks = (node for node in ast.walk(site.ctx.tree) if isinstance(node, ast.With) and len(node.body) > 1)
    name = site.function.name if site.function is not None else None
    for block in blocks if name is not None else ():
        last = block.body[-1]
        call = last.value if isinstance(last, ast.Expr) else None
        ends = isinstance(call, ast.Call) and called(call) == name
        if ends and any(around is block for around, _ in autocast_blocks(site.ctx, last)):
            edits = moved_across(site.ctx, last, block, after=True)
            yield site.fix(f"Call `{name}` after autocast ends", *edits)


def _switched_off(site: Site, backward: ast.stmt) -> Fix | None:
    """Return backward() under an autocast that is off: right wherever its function is called from."""
    device, autocast = site.fact("device"), written_as(site.ctx, "torch.autocast")
    if device not in _DEVICES or autocast is None or not isinstance(backward, ast.Expr):
        return None
    edit = put_under(site.ctx, backward, backward, f'with {autocast}("{device}", enabled=False):')
    return site.fix("Disable autocast for `backward()`", edit)


def _in_bfloat16(site: Site) -> Iterator[Fix | None]:
    """Yield the autocast in bfloat16, whose gradients do not underflow, where float16 began."""
    bfloat16 = written_as(site.ctx, "torch.bfloat16")
    places = (at for _, at in site.fault.related if at.path == site.path)
    statements = [found for at in places if (found := site.statement_at(at.line)) is not None]
    if bfloat16 is None:
        return
    for node in (node for statement in statements for node in site.expressions(statement)):
        if isinstance(node, ast.Call) and site.ctx.name(node.func) in AUTOCAST:
            edit = with_keyword(site.ctx, node, "dtype", bfloat16)
            yield site.fix("Use bfloat16, which needs no scaler (Ampere GPUs and newer)", edit)
