"""The entry point: parses the arguments and imports the command that was called."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from drygrad.children import hear_of_ends

from .arguments import parsed
from .errors import Failure, complain

COMMANDS = {
    "check": "check",
    "run": "run",
    "forecast": "forecast",
    "launches": "launches",
    "explain": "explain",
    "rules": "rules",
    "doctor": "doctor",
    "server": "serve",
    "mcp": "mcp",
    "init": "init",
    "completion": "completion",
}
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``drygrad``; return the exit status."""
    _print_anything()
    hear_of_ends()
    try:
        arguments = parsed(sys.argv[1:] if argv is None else argv)
        command = importlib.import_module(f"{__package__}.{COMMANDS[arguments.command]}")
        status: int = command.run(arguments)
        sys.stdout.flush()
    except Failure as failure:
        complain(str(failure))
        return 2
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains when it exits
        return 2
    return status


def program() -> NoReturn:
    """Run ``drygrad`` as a process of its own, and end it at once: to free a syntax tree node by node takes long."""
    status = main()
    with contextlib.suppress(OSError, ValueError):  # the reader of the output has gone
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def _print_anything() -> None:
    """Let no character of a path or a source line that the terminal's encoding lacks end the program."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure:
            reconfigure(errors="backslashreplace")
