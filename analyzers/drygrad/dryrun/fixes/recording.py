"""Gradients that are switched off where a loss is computed: the blocks and decorators that do so."""

from __future__ import annotations

from collections.abc import Iterator

from drygrad.dryrun.fixes.graph import recorded
from drygrad.dryrun.fixes.site import Site
from drygrad.model import Fix
from drygrad.static.editing import unwrapped
from drygrad.static.rules.autograd.graph import no_grad_block


def fixes(site: Site) -> Iterator[Fix | None]:
    """Yield the text without what switches gradients off, where the loss is computed and around its callers."""
    if site.finding.code != "DG103":
        return
    places = [*(at for _, at in site.fault.related if at.path == site.path), *site.stack]
    for line in dict.fromkeys(at.line for at in places):
        statement = site.statement_at(line)
        block = no_grad_block(site.ctx, statement) if statement is not None else None
        if block is not None and len(block.items) == 1:
            yield site.fix("Remove the `no_grad` block", unwrapped(site.ctx, block))
        function = site.ctx.function(statement) if statement is not None else None
        if function is not None:
            yield from recorded(site, function)
