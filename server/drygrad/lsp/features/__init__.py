"""What the server answers to: one module for each method or pair of methods, each with a ``register`` function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drygrad.lsp.features import (
    code_action,
    code_lens,
    configuration,
    dry_run,
    execute_command,
    forecast,
    hover,
    initialize,
    inlay_hint,
    notebooks,
    run_results,
    text_documents,
    trace,
)

if TYPE_CHECKING:
    from drygrad.lsp.server import DrygradServer

_FEATURES = (
    initialize,
    text_documents,
    notebooks,
    code_action,
    code_lens,
    inlay_hint,
    hover,
    execute_command,
    dry_run,
    forecast,
    run_results,
    configuration,
    trace,
)


def register(server: DrygradServer) -> None:
    """Register all handlers; those that depend on the client's abilities are added at ``initialize``."""
    for feature in _FEATURES:
        feature.register(server)
