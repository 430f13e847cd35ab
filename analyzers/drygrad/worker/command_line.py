"""The command line of a program: what it has, and what a program that reads it lacks; no fault of its own."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Iterator
from types import CodeType
from typing import Any

from drygrad.worker.surroundings import chain, innermost, is_installed, package_of, words_of

_MISUSED = 2
"""The status with which a parser of command lines ends a program by convention."""
_UNSET = "MissingMandatoryValue"
_USAGE = ("UsageError", "MissingParameter", "FireExit", _UNSET)
"""The errors of click, typer, absl, fire and omegaconf for what a command line leaves out."""


class Arguments(list[str]):
    """``sys.argv`` of a run; it knows whether the program has counted on more than it has.

    ``given`` says that somebody has given it, else it has the script alone.
    """

    asked = False
    given = False

    def __init__(self, words: list[str]) -> None:
        super().__init__(words)
        self.readers: set[tuple[int, CodeType]] = set()
        """The frames that have read what stands behind the program's name, by what tells them apart."""

    def __len__(self) -> int:
        self.asked = True
        return super().__len__()

    def __getitem__(self, index: Any) -> Any:
        """Return an argument, or a plain list of them."""
        if isinstance(index, slice):
            frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
            self.readers.add((id(frame), frame.f_code))
        try:
            return super().__getitem__(index)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        except IndexError:
            self.asked = True
            raise


def misused(error: BaseException) -> str | None:
    """Return what is wrong with the command line that a program was given, in a sentence; None for other errors."""
    ends = isinstance(error, SystemExit)
    argv = sys.argv if isinstance(sys.argv, Arguments) else None
    none = "the program was started without command-line arguments"
    lead = "the program rejects its command line" if argv is not None and argv.given else none
    for each in _carried(error):
        wanted = _wanted(each) if ends or type(each).__name__ == _UNSET else None
        if wanted is not None:
            return f"{lead}: {wanted}"
    if isinstance(error, SystemExit) and error.code == _MISUSED and is_installed(innermost(error)):
        return f"{lead}, which it needs" if lead is none else lead
    if argv is not None and not ends and _is_of_reader(error, argv):
        return f"{lead}: {words_of(error).strip().partition(chr(10))[0] or type(error).__name__}"
    if argv is not None and argv.asked and (_reads_command_line(error) or (ends and not argv.given)):
        return f"{lead}: it reads more arguments" if argv.given else f"{lead}, which it needs"
    return None


def _carried(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors behind one; of an end of the program, also those that who has ended it was about to tell."""
    yield from chain(error)
    frame = innermost(error) if isinstance(error, SystemExit) else None
    for value in [*frame.f_locals.values()] if frame is not None and is_installed(frame) else ():
        owner = getattr(value, "__self__", value)
        if isinstance(owner, BaseException) and owner is not error:
            yield owner


def _is_of_reader(error: BaseException, argv: Arguments) -> bool:
    """Say whether an error comes of a package that reads the command line, while it does, and of nothing it calls."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    start = next((i for i, frame in enumerate(frames) if (id(frame), frame.f_code) in argv.readers), None)
    if start is None or not is_installed(frames[start]):
        return False
    package = package_of(frames[start])
    return all(package_of(frame) == package for frame in frames[start:])


def usage(error: BaseException) -> str:
    """Return the usage that the parser of a command line tells, where it is at hand."""
    for each in _carried(error):
        for frame, _ in traceback.walk_tb(each.__traceback__):
            parser = frame.f_locals.get("self")
            if frame.f_code.co_name == "error" and isinstance(parser, argparse.ArgumentParser):
                return parser.format_usage().strip()
        context: Any = getattr(each, "ctx", None)
        tell: Any = getattr(context, "get_usage", None)
        if callable(tell):
            return str(tell()).strip()
    return ""


def _wanted(error: BaseException) -> str | None:
    """Return what a parser of command lines has missed before it ended the program."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_name == "error" and isinstance(frame.f_locals.get("self"), argparse.ArgumentParser):
            return str(frame.f_locals.get("message"))
    trace: Any = getattr(error, "trace", None)
    tell: Any = getattr(trace, "elements", None)
    if type(error).__name__ == "FireExit" and tell and callable(getattr(tell[-1], "ErrorAsStr", None)):
        return str(tell[-1].ErrorAsStr())
    if any(kind.__name__ in _USAGE for kind in type(error).__mro__):
        words: Any = getattr(error, "format_message", None)
        said = str(words()) if callable(words) else words_of(error)
        return said.strip().partition("\n")[0] or "some are required"
    return None


def _reads_command_line(error: BaseException) -> bool:
    frame = innermost(error)
    return isinstance(error, IndexError) and frame is not None and frame.f_code is Arguments.__getitem__.__code__
