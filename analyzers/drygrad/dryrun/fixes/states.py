"""What a module keeps beside its state: registered as a buffer that is saved."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.dryrun.fixes.site import Site
from drygrad.model import Fix
from drygrad.static.editing import as_buffer
from drygrad.static.syntax import called


def fixes(site: Site) -> Iterator[Fix | None]:
    """Yield the buffer in the place of the attribute, or one that is saved in the place of one that is not."""
    yield site.fix("Register it as a persistent buffer", as_buffer(site.ctx, site.statement, saved=True))
    match site.statement:
        case ast.Expr(value=ast.Call(keywords=keywords) as call) if called(call) == "register_buffer":
            given = next((keyword.value for keyword in keywords if keyword.arg == "persistent"), None)
            edit = site.ctx.replace(given, "True") if given is not None else None
            yield site.fix("Make the buffer persistent", edit)
        case _:
            pass
