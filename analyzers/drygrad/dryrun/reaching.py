"""Runs that go further than one call, for repairs of what it does not come to: longer loops, a second call, a batch.

Nothing that such a run sees is told: it only tries the fixes of what the text says.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from drygrad.dryrun.findings import statement_of
from drygrad.dryrun.inventions import was_found, written
from drygrad.dryrun.judging import GRAVE, ran
from drygrad.dryrun.merge import Record
from drygrad.dryrun.plan import Plan
from drygrad.dryrun.refuting import way
from drygrad.dryrun.trial import with_inputs
from drygrad.model import Finding
from drygrad.parsing import parsed, parsed_expression

LOOPS = 24
"""So many passes a loop is followed: evaluations and logging come every five, ten or twenty steps."""
_TIMES = 8
_FEW = 4
_BATCHES = ast.unparse(parsed("torch.utils.data.DataLoader").body[0])


def unreached(findings: Sequence[Finding], record: Record) -> list[Finding]:
    """Return the findings of the text, with fixes, in code that a run has defined and that it did not come to."""
    if record.result.outcome != "passed":
        return []
    return [f for f in findings if f.witness == "static" and f.severity in GRAVE and f.fixes and _is_near(f, record)]


def _is_near(finding: Finding, record: Record) -> bool:
    steps, source = record.plan.steps, record.plan.source
    statement = statement_of(source, finding.span.start)
    if not isinstance(statement, ast.stmt) or ran(statement, record):
        return False
    return steps is None or any(outer in steps for outer in way(source.tree.body, statement))


def further(record: Record) -> Plan | None:
    """Return the plan of the same run, going further; with lists of batches that were invented made longer."""
    plan: Plan | None = record.plan
    if was_found(record.result):
        plan = with_inputs(record.plan, lengthened(written(record.result)))
    return replace(plan, options=replace(plan.options, loop_limit=LOOPS, further=True)) if plan is not None else None


def lengthened(inputs: str) -> str:
    """Return inputs with more batches in the lists and loaders of few that are all alike."""
    call = parsed_expression(f"f({inputs})")
    assert isinstance(call, ast.Call)
    for keyword in call.keywords:
        keyword.value = _longer(keyword.value)
    return ", ".join(map(ast.unparse, [*call.args, *call.keywords]))


def _longer(value: ast.expr) -> ast.expr:
    match value:
        case ast.List(elts=elements) if 1 < len(elements) <= _FEW and len({*map(ast.unparse, elements)}) == 1:
            return ast.BinOp(value, ast.Mult(), ast.Constant(_TIMES))
        case ast.Call(args=[ast.ListComp(generators=[ast.comprehension(iter=ast.Call(args=[ast.Constant() as few]))])]):
            if ast.unparse(value.func) == _BATCHES and isinstance(few.value, int):
                few.value *= _TIMES
            return value
        case _:
            return value
