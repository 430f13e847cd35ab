"""``drygrad mcp``: the tools for coding agents, where the extra that they need is installed."""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import sys

from .errors import Failure


def run(arguments: argparse.Namespace) -> int:
    """Serve on stdin and stdout until the client leaves; return the exit status."""
    if importlib.util.find_spec("mcp") is None:
        raise Failure(
            "`drygrad mcp` needs the Model Context Protocol SDK: pip install 'drygrad[mcp]' "
            f"(into the environment of {sys.executable})"
        )
    try:
        from drygrad.agents.server import serve  # noqa: PLC0415 - an extra, and half a second of imports
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise Failure(
            f"the installed `mcp` is not the one that drygrad needs: pip install 'drygrad[mcp]' ({error})"
        ) from error
    asyncio.run(serve(arguments))
    return 0
