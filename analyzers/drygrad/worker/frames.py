"""Frames of drygrad's own: what they raise is no fault of the program's, and no traceback shows them."""

from __future__ import annotations

import dis
import os
import re
from types import TracebackType

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
_PACKAGE = "drygrad.worker."
_OF_PYTHON = (AttributeError, KeyError, NameError, TypeError, AssertionError)
"""What Python code raises by itself; all else comes out of an operation that was only passed on."""
_PASSING = ("CALL", "RAISE", "RERAISE", "SEND", "YIELD", "FOR_ITER", "WITH", "BEFORE_WITH")
"""The instructions in which a frame passes on what something else has raised, or raises on purpose."""
_SHOWN = re.compile(rf'^([ |+]*)File "{re.escape(_FOLDER)}[^\n]*\n(?:\1 [^\n]*\n?)*', re.MULTILINE)


def is_ours(error: BaseException) -> bool:
    """Say whether an error is drygrad's own: raised by the worker's code itself, or complaining of its objects."""
    if _PACKAGE in _said(error):
        return True
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or not isinstance(error, _OF_PYTHON):
        return False
    code = trace.tb_frame.f_code
    if not code.co_filename.startswith(_FOLDER):
        return False
    name = dis.opname[code.co_code[trace.tb_lasti]]
    return isinstance(error, AssertionError) or not name.startswith(_PASSING)


def without_ours(text: str) -> str:
    """Return what a program has printed without the frames of tracebacks that are drygrad's."""
    return _SHOWN.sub("", text) if _FOLDER in text else text


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a user's __str__ may raise anything
        return ""
