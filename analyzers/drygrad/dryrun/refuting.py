"""When a run disproves what the static witness suspects, or what another run has seen with other inputs.

Only faults of structure that the text foretells can be disproved by one run, and only where it took every path that
leads to the statement, with inputs that the user gave, in the grad mode and on a device in which the fault would have
shown. In doubt, it did not.

What was seen with inputs that were invented, or not in the state that the program has them in, gives way more easily:
to a run with the program's own inputs that came by that statement, and had nothing to say. So does an error that ended
a run of a part of a script, where the script itself came by.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from drygrad.dryrun.findings import statement_of
from drygrad.dryrun.inventions import OF_STRUCTURE
from drygrad.dryrun.names import blocks, read_names
from drygrad.dryrun.plan import Plan
from drygrad.dryrun.result import Result
from drygrad.dryrun.slicing import Imports, backward_slice, steps_before
from drygrad.model import Finding
from drygrad.static.source import Source
from drygrad.static.statements import first_line

Need: TypeAlias = Literal["backward", "own backward", "grad", "device"]
"""What a run must have had: a backward pass, one of the user's own, grad mode, a device that is not the CPU."""

REFUTABLE: Mapping[str, frozenset[Need]] = {
    "DG101": frozenset({"backward", "grad"}),  # the backward pass compares versions
    "DG102": frozenset({"grad"}),  # the write raises
    "DG103": frozenset({"own backward"}),  # backward raises
    "DG106": frozenset({"own backward", "grad"}),  # backward raises
    "DG107": frozenset({"grad"}),  # the conversion raises
    "DG110": frozenset({"grad"}),  # the optimizer's constructor raises
    "DG201": frozenset({"device"}),  # the operation raises
    "DG205": frozenset({"device"}),
    "DG207": frozenset({"device"}),
    "DG301": frozenset(),  # the loss raises
    "DG303": frozenset(),  # the shapes of every loss are compared
    "DG309": frozenset(),  # the loss raises
    "DG310": frozenset(),
    "DG314": frozenset(),  # the operation raises
    "DG315": frozenset(),
    "DG317": frozenset(),
    "DG723": frozenset({"own backward", "grad", "device"}),  # the scaler raises, unless it is off for want of a GPU
    "DG740": frozenset(),  # the assignment raises
}
"""The codes of the faults of structure that show in every run that meets them, and what the run must have had."""

_GIVEN = frozenset({"comment", "flag", "call", "constructor"})
_OF_FILE = frozenset({"call", "constructor", "search"})
"""Where the inputs come from that the user has not written for a run."""
_WITHOUT_GRAD = ("no_grad", "inference_mode", "set_grad_enabled")

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def refutes(plan: Plan, result: Result, finding: Finding, source: Source) -> bool:
    """Say whether a run disproves a static finding; ``source`` is the text that was run."""
    needs = REFUTABLE.get(finding.code)
    if needs is None or result.outcome != "passed" or result.error is not None:
        return False
    if plan.options.instruments is not None or not plan.input_sources <= _GIVEN or not _had(needs, plan, result):
        return False
    statement = statement_of(source, finding.span.start)
    return isinstance(statement, ast.stmt) and _reached(statement, plan, result, source)


def outdoes(plan: Plan, result: Result, finding: Finding, source: Source) -> bool:
    """Say whether a run with the program's own inputs, which found no fault in a statement, came by it to its end."""
    if result.outcome != "passed" or result.error is not None or plan.partial or plan.proposal is not None:
        return False
    statement = statement_of(source, finding.span.start)
    return isinstance(statement, ast.stmt) and entered(statement, result, source)


def denies(script: Plan, ran: Result, plan: Plan, result: Result, finding: Finding, source: Source) -> bool:
    """Say whether a script that runs to its end went by the statement whose error has ended a run of a part of it.

    Then it is the surroundings of that run, or its inputs, that the program does not have.
    """
    if script.target.function is not None or plan.target.function is None or finding.code in OF_STRUCTURE:
        return False
    if not plan.input_sources <= _OF_FILE or plan.elsewhere is not None or result.error is None:
        return False
    error = result.error.at
    here = error is not None and error.path == str(plan.path)
    lines = {finding.span.start.line, *(r.span.start.line for r in finding.related if r.path is None)}
    return here and error is not None and error.line in lines and outdoes(script, ran, finding, source)


def _had(needs: frozenset[Need], plan: Plan, result: Result) -> bool:
    had: set[Need] = set()
    if result.backward != "none":
        had.add("backward")
    if result.backward == "target":
        had.add("own backward")
    without = any(mode in text for text in plan.contexts for mode in _WITHOUT_GRAD)
    if not without and (plan.program is None or "backward" in had):  # a program may have any mode
        had.add("grad")
    if result.device.startswith(("sim", "cuda")):
        had.add("device")
    return needs <= had


def _reached(statement: ast.stmt, plan: Plan, result: Result, source: Source) -> bool:
    """Say whether the run took every path to a statement that could matter to it."""
    around = way(source.tree.body, statement)
    functions = [node for node in around[:-1] if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    if not _is_about(functions, plan):
        return False
    inner = around[around.index(functions[-1]) + 1 :] if functions else around
    body = functions[-1].body if functions else source.tree.body
    if not _entered(around, result):
        return False
    imports = Imports(source.tree)
    names = {name for node in ast.walk(statement) if isinstance(node, ast.expr) for name in read_names(node)}
    before = backward_slice(steps_before(body, inner, imports), names, (), imports).steps
    return all(_took_all(step, result) for step in before if isinstance(step, ast.stmt)) and not _cut_before(
        statement, body, result, plan.path
    )


def entered(statement: ast.stmt, result: Result, source: Source) -> bool:
    """Say whether a run entered each block around a statement."""
    return _entered(way(source.tree.body, statement), result)


def _entered(around: Sequence[ast.stmt], result: Result) -> bool:
    pairs = ((outer, child) for outer, child in pairwise(around) if not isinstance(outer, ast.ClassDef))
    return all(_ran(_block_with(outer, child), result) for outer, child in pairs)


def _is_about(functions: Sequence[FunctionNode], plan: Plan) -> bool:
    """Say whether the inputs of the run are those that a statement in these functions depends on."""
    target = plan.target.function
    if target is None or not (plan.arguments or plan.receiver or plan.program):
        return True
    names = [(node.name, node.lineno) for node in functions]
    return (target.name, target.lineno) in names


def _took_all(statement: ast.stmt, result: Result) -> bool:
    """Say whether every branch of a statement ran: an ``if`` without ``else`` has one that nobody saw."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return True
    branching = [n for n in ast.walk(statement) if isinstance(n, (ast.If, ast.Match, ast.Try, ast.IfExp))]
    if any(isinstance(n, ast.IfExp) or (isinstance(n, ast.If) and not n.orelse) for n in branching):
        return False
    inner = (n for n in ast.walk(statement) if isinstance(n, ast.stmt))
    return all(_ran(block, result) for n in inner for block in blocks(n) if block)


def _ran(block: Sequence[ast.stmt], result: Result) -> bool:
    """Say whether a block ran; a docstring before its first statement does not count."""
    return any({statement.lineno, first_line(statement)} & result.blocks for statement in block[:2])


def _cut_before(statement: ast.stmt, body: Iterable[ast.stmt], result: Result, path: Path) -> bool:
    """Say whether a loop that was ended early stands before a statement, and not around it."""
    cut = {entry.get("line") for entry in truncated(result, path)}
    loops = (n for s in body for n in ast.walk(s) if isinstance(n, (ast.For, ast.AsyncFor, ast.While)))
    return any(loop.lineno in cut and (loop.end_lineno or 0) < statement.lineno for loop in loops)


def truncated(result: Result, path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield what the worker says of the loops of a file that it ended early."""
    data = result.data.get("truncated")
    for entry in cast("list[object]", data) if isinstance(data, list) else ():
        known: Mapping[str, Any] = cast("Mapping[str, Any]", entry) if isinstance(entry, Mapping) else {}
        if "line" in known and known.get("path") in (None, str(path)):
            yield known


def way(body: Sequence[ast.stmt], wanted: ast.stmt) -> list[ast.stmt]:
    """Return the statements around a statement, from the outermost to itself."""
    for statement in body:
        if statement is wanted:
            return [statement]
        for block in blocks(statement):
            inside = way(block, wanted)
            if inside:
                return [statement, *inside]
    return []


def _block_with(outer: ast.stmt, child: ast.stmt) -> Sequence[ast.stmt]:
    return next(block for block in blocks(outer) if child in block)
