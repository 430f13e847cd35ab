"""``drygrad server``: the language server."""

from __future__ import annotations

import argparse
import gc
from typing import NoReturn


def run(arguments: argparse.Namespace) -> NoReturn:
    """Run the command; it ends when the client leaves."""
    gc.disable()  # thousands of classes are made now, and none of them is garbage; `main` turns it on again
    from drygrad.lsp.server import main  # noqa: PLC0415 - the protocol's types take longer to import than a check

    main(arguments.tcp, arguments.log_file, arguments.log_level)
