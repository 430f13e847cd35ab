"""What happens in each turn of a training loop: which loops train, which steps wait for a group of micro-batches."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from drygrad.static.context import Context, Loop
from drygrad.static.facts.values import Constant
from drygrad.static.steps import Event, Kind, Training
from drygrad.static.syntax import bound_names
from drygrad.static.tree import walk


def training_loops(training: Training, *steps: Kind) -> Iterator[Loop]:
    """Yield the loops that run both a backward and an optimizer step (or another kind) and hold no loop that does."""
    enclosing: set[Loop] = set()
    for loop in training.loops:
        if loop in enclosing or not (
            training.within(loop, "backward") and training.within(loop, *(steps or ("step",)))
        ):
            continue
        enclosing |= {outer for event in training.events for outer in _around(event, loop)}
        yield loop


def _around(event: Event, loop: Loop) -> tuple[Loop, ...]:
    return event.loops[event.loops.index(loop) + 1 :] if loop in event.loops else ()


def same_object(first: Event, second: Event) -> bool:
    """Say whether two steps may concern the same object: their names agree, or one has none."""
    return first.receiver == second.receiver or first.receiver is None or second.receiver is None


def one_optimizer(training: Training, loop: Loop | None = None) -> bool:
    """Say whether all optimizer steps (of a loop) are those of one optimizer."""
    steps = training.of("step") if loop is None else training.within(loop, "step")
    cleared = [e for e in training.of("zero_grad") if "optimizer" in e.roles]
    return len({e.receiver for e in (*steps, *cleared)}) == 1


def binds(loop: Loop, name: str | None) -> bool:
    """Say whether a loop (re)binds a name, or the object that an attribute belongs to."""
    if name is None:
        return True
    names = {name, name.partition(".")[0]}
    return any(
        isinstance(n, (ast.Name, ast.Attribute)) and isinstance(n.ctx, ast.Store) and ast.unparse(n) in names
        for n in walk(loop)
    )


@dataclass(frozen=True, slots=True)
class Accumulation:
    """A loop over micro-batches whose optimizer steps once in ``size`` turns: ``if (i + 1) % size == 0``."""

    loop: Loop
    step: Event
    condition: ast.If
    size: ast.expr
    backwards: tuple[Event, ...]


def accumulations(ctx: Context, training: Training) -> Iterator[Accumulation]:
    """Yield the loops that accumulate gradients with one optimizer."""
    for loop in training_loops(training):
        steps = training.within(loop, "step")
        backwards = tuple(training.within(loop, "backward"))
        conditions = [_counting_condition(ctx, step, loop) for step in steps]
        if not one_optimizer(training, loop) or training.hides(loop, "optimizer", "scaler"):
            continue
        if any(b.loops[0] is not loop or b.branches_in(loop) for b in backwards):
            continue
        found = conditions[0]
        if found is not None and all(c is not None and c[0] is found[0] for c in conditions):
            yield Accumulation(loop, steps[0], *found, backwards)


def _counting_condition(ctx: Context, step: Event, loop: Loop) -> tuple[ast.If, ast.expr] | None:
    """Return the condition of a step that counts turns, and the number it counts to."""
    if step.loops[0] is not loop:
        return None
    for statement, branch in step.branches_in(loop):
        if isinstance(statement, ast.If) and branch == "body":
            size = _modulus(statement.test) or _modulus(_meaning(ctx, statement.test, loop)) or _limit(statement, loop)
            if size is not None and ctx.value(size) != Constant(1):
                return statement, size
    return None


def _limit(condition: ast.If, loop: Loop) -> ast.expr | None:
    """Return what a counter of the turns is compared with: ``if count == size:``, where it begins again."""
    match condition.test:
        case ast.Compare(left=ast.Name(id=count), ops=[ast.Eq() | ast.GtE()], comparators=[size]):
            pass
        case _:
            return None
    counted = any(
        isinstance(s, ast.AugAssign) and isinstance(s.op, ast.Add) and _is_step_of(s, count) for s in loop.body
    )
    reset = any(
        isinstance(s, ast.Assign) and count in bound_names(s.targets[0]) and _is_number(s.value, 0)
        for s in condition.body
    )
    return size if counted and reset else None


def _is_step_of(statement: ast.AugAssign, count: str) -> bool:
    return isinstance(statement.target, ast.Name) and statement.target.id == count and _is_number(statement.value, 1)


def _is_number(node: ast.expr, number: int) -> bool:
    return isinstance(node, ast.Constant) and node.value == number


def _modulus(test: ast.expr | None) -> ast.expr | None:
    remainders = [n for n in walk(test) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod)] if test else []
    return remainders[0].right if remainders else None


def _meaning(ctx: Context, test: ast.expr, loop: Loop) -> ast.expr | None:
    """Return what a flag was set to in the loop: ``is_last = (i + 1) % k == 0``."""
    if not isinstance(test, ast.Name):
        return None
    assigned = [n.value for n in walk(loop) if isinstance(n, ast.Assign) and ctx.text(n.targets[0]) == test.id]
    return assigned[0] if len(assigned) == 1 else None
