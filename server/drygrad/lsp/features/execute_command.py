"""``workspace/executeCommand``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pygls.exceptions import JsonRpcInvalidParams

from drygrad.documentation import markdown_of

if TYPE_CHECKING:
    from drygrad.lsp.server import DrygradServer

EXPLAIN = "drygrad.explain"


def explain(argument: Any) -> str:
    """Return a rule's documentation as Markdown, for ``{"code": "DG101"}``."""
    code: object = cast("dict[str, object]", argument).get("code") if isinstance(argument, dict) else argument
    documentation = markdown_of(code) if isinstance(code, str) else None
    if documentation is None:
        raise JsonRpcInvalidParams(f"no rule has the code {code!r}")
    return documentation


def register(server: DrygradServer) -> None:
    """Register the commands."""
    server.command(EXPLAIN)(explain)
