"""What the documentation of a function says of the shape that it returns."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from types import CodeType

from drygrad.worker.lines import Lines
from drygrad.worker.texts import class_with, function_at, tree_of

_RETURNED = r"(?:\breturn\w*|->|\boutputs?\b|\byields\b)[^()\[\]]*?"
_ONE = re.compile(_RETURNED + r"(?:\(\s*\w+\s*,\s*\)|shaped?:?\s+(?:of\s+)?[\[(]\s*\w+\s*,?\s*[\])])", re.IGNORECASE)
_ANNOTATED = re.compile(r"\w+\[[\w.]+, ['\"]\w+['\"]\]")
_COLUMN = re.compile(r",\s*1\s*[\])]")


def promises_one_dimension(code: CodeType, lines: Lines) -> bool:
    """Say whether a function, or the class that it is a method of, is said to return one number for each sample."""
    source = lines.source(code.co_filename)
    return source is not None and _promised("\n".join(source), code.co_firstlineno)


@lru_cache(maxsize=64)
def _promised(text: str, first: int) -> bool:
    function = function_at(text, first)
    if function is None:
        return False
    owner = class_with(tree_of(text), function)
    documented = ast.get_docstring(owner) if owner is not None else None
    told = " ".join([ast.get_docstring(function) or "", documented or ""])
    annotated = function.returns is not None and _ANNOTATED.fullmatch(ast.unparse(function.returns))
    return bool(annotated) or (_ONE.search(told) is not None and not _COLUMN.search(told))
