"""The results of recurrent layers: the outputs of all steps, and the last hidden state."""

from __future__ import annotations

import ast

from drygrad.static.facts.frame import dotted_text

RECURRENT = frozenset({"lstm", "gru", "rnn"})
"""Operations of layers over whole sequences."""


def result_names(target: ast.expr) -> tuple[str | None, str | None]:
    """Return the names to which the outputs and the last hidden state of a layer are bound."""
    match target:
        case ast.Tuple(elts=[output, ast.Tuple(elts=[state, *_])]) | ast.Tuple(elts=[output, state]):
            return dotted_text(output), dotted_text(state)
        case _:
            return None, None
