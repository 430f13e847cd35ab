"""Ranks out of step: at one collective, the pass of a loop that one is in is not the pass of another."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence, Set

from drygrad.worker.lines import Lines
from drygrad.worker.ranks.differing import WAITING
from drygrad.worker.ranks.table import Arrival
from drygrad.worker.run import Fault, Place
from drygrad.worker.texts import tree_of


def passed_over(lines: Lines, traces: Sequence[Sequence[Arrival]], blocks: Sequence[Set[int]]) -> Fault | None:
    """Return the fault of a rank that leaves passes of a loop out which others make; None where all are in step.

    Only a ``continue`` that the others never come to is told: it is what puts them out of step.
    """
    source = lines.source(lines.path)
    if source is None or not traces:
        return None
    tree = tree_of("\n".join(source))
    for other in range(1, len(traces)):
        for one, its in zip(_of_all(traces[0], len(traces)), _of_all(traces[other], len(traces))):
            if one.op != its.op or [step[:2] for step in one.chain] != [step[:2] for step in its.chain]:
                break
            loop = next(_out_of_step(tree, lines.path, one, its), None)
            if loop is not None:
                first, then = (one, its) if _count(one, loop) > _count(its, loop) else (its, one)
                return _fault(lines.path, loop, first, then, blocks)
    return None


def _of_all(trace: Sequence[Arrival], world: int) -> Iterator[Arrival]:
    return (arrival for arrival in trace if len(arrival.group) == world)


def _out_of_step(tree: ast.AST, path: str, one: Arrival, other: Arrival) -> Iterator[ast.For | ast.While]:
    """Yield the loops around a collective that ranks have not begun equally often."""
    lines = [line for file, line, *_ in one.chain if file == path]
    for node in ast.walk(tree):
        if isinstance(node, (ast.For, ast.While)) and _count(one, node) != _count(other, node):
            yield from [node] if any(node.lineno < n <= (node.end_lineno or 0) for n in lines) else ()


def _count(arrival: Arrival, loop: ast.For | ast.While) -> int:
    return arrival.passes.get(str(loop.lineno), 0)


def _fault(
    path: str, loop: ast.For | ast.While, ahead: Arrival, behind: Arrival, blocks: Sequence[Set[int]]
) -> Fault | None:
    alone = blocks[ahead.rank] - blocks[behind.rank]
    for node in ast.walk(loop):
        block: list[ast.stmt] = node.body if isinstance(node, ast.If) else []
        if block and isinstance(block[-1], ast.Continue) and block[0].lineno in alone:
            message = f"rank {ahead.rank} skips an iteration here and rank {behind.rank} does not: "
            message += (
                f"in {behind.what} they then average different iterations, and the rank with more of them "
                "hangs at the end"
            )
            last = Place(*behind.chain[-1])
            related = [(f"rank {behind.rank} calls {behind.what}", last)]
            return Fault(WAITING, message, Place(path, block[-1].lineno), severity="warning", related=related)
    return None
