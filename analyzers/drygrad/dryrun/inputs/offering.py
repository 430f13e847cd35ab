"""What could be given though it has a default: None or a value, True or False, one of the words that are asked for."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from drygrad.dryrun.inputs.arguments import FunctionNode, defaults_of
from drygrad.dryrun.inputs.nodes import Node, text, with_others
from drygrad.dryrun.inputs.usage import Usage

SOURCE = "option"
"""The source of what is given though it has a default."""
_MOST = 12


class _Proposer(Protocol):
    offers: bool

    def of(self, usage: Usage, depth: int = 0) -> Node: ...


def offers(
    function: FunctionNode, used: Mapping[str, Usage], given: Sequence[str | None], proposer: _Proposer, depth: int = 0
) -> Iterator[tuple[str, Node]]:
    """Yield other values than the default for the parameters that are not given, by their names.

    Where the proposer does not offer what has a default, these are only such as are None: what is None may be wanted.
    """
    defaults = defaults_of(function).items()
    free = [(name, default) for name, default in defaults if default is not None and name not in given]
    free = free if proposer.offers else [(name, default) for name, default in free if _is_none(default)]
    for name, default in free[:_MOST]:
        usage = used.get(name) or Usage([name])
        if isinstance(default, ast.Constant) and isinstance(default.value, bool):
            yield name, text(repr(not default.value), SOURCE)
        elif isinstance(default, ast.Constant) and isinstance(default.value, str):
            others = [word for word in dict.fromkeys(usage.choices) if word != repr(default.value)]
            if others:
                yield name, with_others(*(text(word, SOURCE) for word in others))
        else:
            proposed = {**proposer.of(usage, depth), "source": SOURCE}
            yield name, with_others(proposed, text("None", SOURCE), text("0", SOURCE), text("1", SOURCE))


def _is_none(default: ast.expr) -> bool:
    return isinstance(default, ast.Constant) and default.value is None
