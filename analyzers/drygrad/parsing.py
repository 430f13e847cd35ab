"""Python's parser, for several threads at once.

Before 3.12 it cannot build two syntax trees at a time ("AST constructor recursion depth mismatch"), and what silences
warnings holds for all threads: one text is parsed after another.
"""

from __future__ import annotations

import ast
import threading
import warnings
from typing import cast

_ONE = threading.RLock()


def parsed(text: str | bytes) -> ast.Module:
    """Parse a module. Raises SyntaxError, ValueError, RecursionError or MemoryError where Python cannot."""
    return cast("ast.Module", _parsed(text, "exec"))


def parsed_expression(text: str) -> ast.expr:
    """Parse an expression; errors are those of ``parsed``."""
    return cast("ast.Expression", _parsed(text, "eval")).body


def _parsed(text: str | bytes, mode: str) -> ast.AST:
    with _ONE, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an invalid escape in somebody's text is not ours to report
        return ast.parse(text, mode=mode)
