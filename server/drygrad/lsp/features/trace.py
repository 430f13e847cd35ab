"""``$/setTrace`` and ``$/logTrace``: what is checked when, for those who ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types as lsp

if TYPE_CHECKING:
    from drygrad.lsp.checking import Checker
    from drygrad.lsp.server import DrygradServer


def register(server: DrygradServer) -> None:
    """Trace each result; pygls itself keeps the level that ``$/setTrace`` sets."""

    def trace(checker: Checker) -> None:
        level = server.protocol.trace
        if level == lsp.TraceValue.Off:
            return
        count = sum(len(shown.findings) for shown in checker.shown.values())
        message = f"checked {checker.uri}: {count} finding{'' if count == 1 else 's'}"
        versions = {uri: shown.part.version for uri, shown in checker.shown.items()}
        verbose = f"versions {versions}" if level == lsp.TraceValue.Verbose else None
        server.log_trace(lsp.LogTraceParams(message, verbose))

    server.session.listeners.append(trace)
