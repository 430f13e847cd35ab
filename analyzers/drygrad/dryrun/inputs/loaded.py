"""Inputs that a ``DataLoader`` has stacked: their first axis counts samples, whatever the target's text says."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from drygrad import parsing
from drygrad.dryrun.plan import Plan
from drygrad.dryrun.slicing import Bind, Step

_KEEPS_LAYOUT = frozenset("to cuda cpu float double half bfloat16 long int contiguous clone detach".split())
_OTHERWISE = frozenset({"collate_fn", "batch_sampler", "sampler", "drop_last"})
"""Keywords of a loader that need not stack single samples, or whose batches all have the size that code relies on."""
_BATCH_SIZE = 1
"""Its position among a loader's arguments."""


def is_stacked_by_loader(plan: Plan) -> bool:
    """Say whether each input of a call is a batch of samples without an order, as a loader's default stacks them.

    A loader of the file that shuffles tells that they have no order: that of the frames of one film, say, matters.
    """
    if plan.steps is None or plan.elsewhere is not None or not plan.arguments:
        return False
    given = [parsing.parsed_expression(argument.text) for argument in plan.arguments]
    loaders = [node for node in ast.walk(plan.source.tree) if _is_loader(node)]
    if not any(_is_constant(_keyword(loader, "shuffle"), True) for loader in loaders):
        return False
    return all(_is_stacked(node, plan.steps) for node in given)


def _is_stacked(node: ast.expr | None, steps: Sequence[Step]) -> bool:
    """Say whether an expression is a tensor of a loader's batch after some steps, moved or converted at most."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _KEEPS_LAYOUT:
        node = node.func.value
    if not isinstance(node, ast.Name):
        return False
    for count in range(len(steps) - 1, -1, -1):
        for name, value in _bindings(steps[count]):
            if name != node.id:
                continue
            fetched = _fetched_from(steps[count])
            return _stacks(fetched, steps[:count]) if fetched is not None else _is_stacked(value, steps[:count])
    return False


def _bindings(step: Step) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the names that a step binds, each with its own value where that is told apart from the others'."""
    match step:
        case ast.Assign(targets=[target], value=value):
            pass
        case Bind():
            target, value = parsing.parsed_expression(step.target), parsing.parsed_expression(step.text)
        case ast.stmt():
            stores = (n for n in ast.walk(step) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
            yield from ((n.id, None) for n in stores)
            return
        case _:
            return
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        yield from ((t.id, v) for t, v in zip(target.elts, value.elts, strict=True) if isinstance(t, ast.Name))
    elif isinstance(target, ast.Name):
        yield target.id, value
    else:
        yield from ((n.id, None) for n in ast.walk(target) if isinstance(n, ast.Name))


def _fetched_from(step: Step) -> ast.expr | None:
    """Return what a loop goes through, if a step binds its first item."""
    if not isinstance(step, Bind):
        return None
    match parsing.parsed_expression(step.text):
        case ast.Call(ast.Name("next"), [ast.Call(ast.Name("iter"), [iterated])]):
            return iterated
        case _:
            return None


def _stacks(node: ast.expr | None, steps: Sequence[Step]) -> bool:
    """Say whether an expression is, after some steps, a loader that stacks two samples or more."""
    if isinstance(node, ast.Name):
        values = (
            (count, value)
            for count in range(len(steps) - 1, -1, -1)
            for name, value in _bindings(steps[count])
            if name == node.id
        )
        count, value = next(values, (0, None))
        return _stacks(value, steps[:count])
    if node is None or not _is_loader(node):
        return False
    assert isinstance(node, ast.Call)
    size = _keyword(node, "batch_size") or (node.args[_BATCH_SIZE] if len(node.args) > _BATCH_SIZE else None)
    alone = size is None or (isinstance(size, ast.Constant) and size.value in (None, 1))
    return not alone and not any(keyword.arg is None or keyword.arg in _OTHERWISE for keyword in node.keywords)


def _is_loader(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name("DataLoader") | ast.Attribute(attr="DataLoader")):
            return True
        case _:
            return False


def _keyword(node: ast.AST, name: str) -> ast.expr | None:
    keywords = node.keywords if isinstance(node, ast.Call) else ()
    return next((keyword.value for keyword in keywords if keyword.arg == name), None)


def _is_constant(node: ast.expr | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value
