"""``drygrad server``: the language server."""

from __future__ import annotations

import argparse


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return the exit status."""
    from drygrad.lsp.server import main  # noqa: PLC0415 - the protocol's types take longer to import than a check

    return main(tcp=arguments.tcp)
