"""Options of a target that were not taken: which runs with others come by the lines that a run has left out.

An option is a parameter with a default, or one of the constructor that made the object, which a condition asks about:
True for False, None for a value, a value for None, another one of the texts that it is compared with.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from drygrad.dryrun.inputs.arguments import Problem, defaults_of, parameter_names
from drygrad.dryrun.inputs.comment import read_flag
from drygrad.dryrun.inputs.forwarding import constructor_of
from drygrad.dryrun.merge import Record
from drygrad.dryrun.names import blocks
from drygrad.dryrun.plan import Plan, RunOptions
from drygrad.dryrun.planning import without
from drygrad.dryrun.program import Program
from drygrad.dryrun.result import Coverage
from drygrad.parsing import parsed_expression

MOST = 6
"""So many runs with other options follow one at most."""
_SEARCH = 1.0
_MOST_SEARCHED = 2
_PREFIX = "# dry-run: "

Again = Callable[[RunOptions], Awaitable["Sequence[Record]"]]
Once = Callable[[Plan], Awaitable[Record]]


@dataclass(frozen=True)
class Option:
    """A parameter with another value: of the target, or of the constructor; without a text it is to be searched."""

    name: str
    text: str | None
    of_constructor: bool = False


async def vary(record: Record, again: Again, once: Once, seconds: float) -> list[Record]:
    """Return the runs with other calls, options and inputs that came by what a run has left out, or found something.

    ``once`` runs a plan, ``again`` what is planned under other conditions.
    """
    covered, given = record.result.coverage, _given(record)
    if covered is None or not covered.missed or seconds <= 0 or record.plan.within is not None:
        return []
    tried: set[Option] = set()
    until = time.monotonic() + seconds
    found, covered = await _called_elsewhere(record, covered, again, once, until)
    more, covered = await _searched(record, covered, again, until)
    found += more
    while given is not None and len(tried) < MOST and time.monotonic() < until:
        option = next((o for o in options(record, covered) if o not in tried), None)
        varied = _varied(record, given, option) if option is not None else None
        if option is None:
            break
        tried.add(option)
        more, covered = _news(await again(varied) if varied is not None else (), covered)
        found += more
    return found


async def _called_elsewhere(
    record: Record, covered: Coverage, again: Again, once: Once, until: float
) -> tuple[list[Record], Coverage]:
    """Return the run of a later call of the same program, or of another call in a test, that came by what was left out.

    These are the program's own inputs: none that are searched are as good.
    """
    plan = replace(record.plan, options=replace(record.plan.options, device=record.result.device))
    if time.monotonic() + record.result.own_seconds > until:
        return [], covered
    if plan.program is not None:
        others = [_settled(await once(_with_program(plan, replace(plan.program, past=covered.missed))))]
    else:
        rest = without(plan, plan.options)
        others = await again(replace(rest, programs=())) if rest is not None and rest.callers else ()
    own = [other for other in others if other.plan.proposal is None]
    return _news(own, covered)


def _with_program(plan: Plan, program: Program) -> Plan:
    """Return a plan with another program, which is taken again wherever its conditions are planned for."""
    return replace(plan, program=program, options=replace(plan.options, programs=(program,)))


def _settled(record: Record) -> Record:
    """Return the record of a later call, whose plan knows which one that was."""
    program, skipped = record.plan.program, record.result.data.get("skipped")
    if program is None or not isinstance(skipped, int):
        return record
    return replace(record, plan=_with_program(record.plan, program.passing_over(skipped)))


def _news(others: Sequence[Record], covered: Coverage) -> tuple[list[Record], Coverage]:
    """Return the runs that came by something new, or failed and say why, and what all cover by then."""
    found: list[Record] = []
    for other in others:
        new = other.result.coverage
        if new is not None and new.ran - covered.ran:
            covered |= new
            found.append(other)
        elif other.findings and other.result.outcome == "failed":
            found.append(other)
    return found, covered


async def _searched(record: Record, covered: Coverage, again: Again, until: float) -> tuple[list[Record], Coverage]:
    """Return the runs with inputs that were searched to come by what was left out, and what all cover by then.

    One is begun where it would end in time if it took as long as the first.
    """
    found: list[Record] = []
    until -= record.result.seconds
    plain = replace(record.plan.options, inputs=None, pinned=(), also=(), callers=(), device=record.result.device)
    while covered.missed and len(found) < _MOST_SEARCHED and time.monotonic() < until:
        others = await again(replace(plain, uncovered=covered.missed))
        news = [o for o in others if o.result.coverage is not None and o.result.coverage.ran - covered.ran]
        failed = [o for o in others if o.findings and o.result.outcome == "failed"]
        found += news or failed
        if not news:
            break
        for other in news:
            covered |= other.result.coverage or covered
    return found, covered


def options(record: Record, covered: Coverage) -> Iterator[Option]:
    """Yield the options that lead to lines which have not run, in their order."""
    function = record.plan.target.function
    if function is None:
        return
    own, made = defaults_of(function), _of_constructor(record)
    for test, wanted in _untaken(function.body, covered):
        for name, value in _asked(test, parameter_names(function, record.plan.target.receiver)):
            yield from (Option(name, text) for text in _others(own.get(name), value, wanted))
        for name, value in _asked(test, [*made], record.plan.target.receiver):
            yield from (Option(name, t, of_constructor=True) for t in _others(made[name], value, wanted) if t)


def _untaken(body: Sequence[ast.stmt], covered: Coverage) -> Iterator[tuple[ast.expr, bool]]:
    """Yield the conditions of which a branch was not taken, and what they must be for it."""
    for statement, after in zip_longest(body, body[1:]):
        if isinstance(statement, ast.If):
            for branch, wanted in ((statement.body, True), (statement.orelse, False)):
                if branch and branch[0].lineno in covered.missed:
                    yield statement.test, wanted
            if not statement.orelse and after is not None and after.lineno in covered.missed:
                yield statement.test, False
        for block in blocks(statement):
            yield from _untaken(block, covered)


def _asked(test: ast.expr, names: Sequence[str], receiver: str | None = None) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that a condition asks about, each with the part that does; attributes of a receiver, if any."""
    parts = test.values if isinstance(test, ast.BoolOp) else [test]
    for part in parts:
        inner = part.operand if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Not) else part
        sides = [inner.left, *inner.comparators] if isinstance(inner, ast.Compare) else [inner]
        for side in sides:
            name = _name(side, receiver)
            if name in names:
                yield name, part


def _name(node: ast.expr, receiver: str | None) -> str:
    if receiver is None:
        return node.id if isinstance(node, ast.Name) else ""
    held = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == receiver
    return node.attr if held and isinstance(node, ast.Attribute) else ""


def _others(default: ast.expr | None, asked: ast.expr, wanted: bool) -> Iterator[str | None]:
    """Yield the values that make a condition what it was not; None for one that is to be searched."""
    constants = [c for c in ast.walk(asked) if isinstance(c, ast.Constant)]
    if any(c.value is None for c in constants):
        yield "None" if wanted == any(isinstance(n, ast.Is) for n in ast.walk(asked)) else None
    elif any(isinstance(c.value, str) for c in constants):
        is_said = any(isinstance(n, (ast.Eq, ast.In)) for n in ast.walk(asked))
        yield from (repr(c.value) for c in constants if isinstance(c.value, str) and is_said == wanted)
    elif isinstance(default, ast.Constant) and isinstance(default.value, bool):
        yield repr(not default.value)
    elif isinstance(default, ast.Constant) and default.value is None:
        yield None
    elif isinstance(default, ast.Constant) and not isinstance(asked, ast.Compare):
        yield "0" if default.value else "1"


def _of_constructor(record: Record) -> Mapping[str, ast.expr | None]:
    """Return the attributes that the object's class sets to parameters of its constructor, with their defaults."""
    owner = record.plan.target.owner
    made = constructor_of(owner) if owner is not None else None
    if made is None:
        return {}
    defaults = defaults_of(made)
    kept = (n for n in ast.walk(made) if isinstance(n, ast.Assign) and isinstance(n.value, ast.Name))
    pairs = ((t.attr, n.value) for n in kept for t in n.targets if isinstance(t, ast.Attribute))
    return {a: defaults[v.id] for a, v in pairs if isinstance(v, ast.Name) and v.id == a and v.id in defaults}


def _given(record: Record) -> dict[str, str] | None:
    """Return the inputs that a run has had, as expressions; None where these do not say all of it."""
    comment = record.comment or ""
    if not comment and record.result.inputs:
        return None
    read = read_flag(comment.removeprefix(_PREFIX)) if comment.startswith(_PREFIX) else ()
    if isinstance(read, Problem) or any(a.star or a.name is None or a.text == "..." for a in read):
        return None
    return {str(argument.name): argument.text for argument in read}


def _varied(record: Record, given: Mapping[str, str], option: Option) -> RunOptions | None:
    """Return the conditions of the same run with another option; None where it cannot be given."""
    pinned, also = {**given}, list[str]()
    if option.of_constructor:
        receiver = str(record.plan.target.receiver)
        changed = _constructed(given.get(receiver, ""), record, option)
        if changed is None:
            return None
        pinned[receiver] = changed
    elif option.text is None:
        pinned.pop(option.name, None)
        also.append(option.name)
    else:
        pinned[option.name] = option.text
    plain = replace(record.plan.options, inputs=None, search_seconds=_SEARCH)
    return replace(plain, pinned=tuple(pinned.items()), also=tuple(also), device=record.result.device)


def _constructed(made: str, record: Record, option: Option) -> str | None:
    """Return the expression of an object with another argument for its constructor."""
    owner = record.plan.target.owner
    try:
        tree = parsed_expression(made)
    except SyntaxError:
        return None
    calls = (n for n in ast.walk(tree) if isinstance(n, ast.Call))
    call = next((c for c in calls if owner and ast.unparse(c.func).rpartition(".")[2] == owner.name), None)
    if call is None or option.text is None:
        return None
    call.keywords = [k for k in call.keywords if k.arg != option.name]
    call.keywords.append(ast.keyword(option.name, parsed_expression(option.text)))
    return ast.unparse(tree)
