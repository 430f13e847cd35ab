"""How the command line says that it could not do its job: on stderr, and with exit status 2."""

from __future__ import annotations

import sys

from .terminal import plain


class Failure(Exception):
    """The command cannot go on; the message is for the user."""


def complain(message: str) -> None:
    """Write one problem to stderr."""
    sys.stderr.write(f"drygrad: {plain(message)}\n")
