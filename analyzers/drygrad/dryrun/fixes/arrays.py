"""Lists of NumPy arrays that become tensors: joined first."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.dryrun.fixes.site import Site
from drygrad.model import Fix
from drygrad.static.rules.speed.tensor_of_arrays import JOINED, stacked


def fixes(site: Site) -> Iterator[Fix | None]:
    """Yield the calls of a statement that make a tensor, with what they are given joined to one array."""
    calls = (node for node in site.expressions(site.statement) if isinstance(node, ast.Call)) if site.statement else ()
    for call in calls:
        if site.ctx.name(call.func) in JOINED and call.args:
            yield stacked(call, site.ctx)
