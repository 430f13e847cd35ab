"""``drygrad completion``: what a shell needs to complete commands, options, choices and files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any, cast

from .arguments import parser

_FILES = ("PATH", "FILE", "FOLDER", "PATH[::QUALNAME]", "P")
"""What arguments are called whose values are files or folders."""


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return the exit status."""
    import shtab  # noqa: PLC0415 - nobody else needs it

    top = parser()
    for action in _actions(top):
        if action.metavar in _FILES:
            action.complete = shtab.FILE  # pyright: ignore[reportAttributeAccessIssue]
    sys.stdout.write(shtab.complete(top, shell=arguments.shell) + "\n")
    return 0


def _actions(command: argparse.ArgumentParser) -> Iterator[Any]:
    for action in command._actions:  # pyright: ignore[reportPrivateUsage]
        yield action
        if isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage]
            for below in cast("dict[str, argparse.ArgumentParser]", action.choices).values():  # pyright: ignore[reportUnknownMemberType]
                yield from _actions(below)
