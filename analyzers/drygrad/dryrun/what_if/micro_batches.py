"""A step of training with its batch in two parts, in the text: gradients are added up before the optimizer steps."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from drygrad.dryrun.what_if.chains import loaded, stored
from drygrad.model import Edit
from drygrad.static.context import Context
from drygrad.static.editing import as_operand, is_plain, put_under, unit_of

_PARTS = 2
_PLAIN = (ast.Assign, ast.AnnAssign, ast.With)


def in_parts(ctx: Context) -> list[Edit | None]:
    """Split the batch of the only training step of a file."""
    found = [step for loop in ctx.nodes(ast.For, ast.While) for step in _steps(ctx, loop)]
    return found[0].edits(ctx) if len(found) == 1 else []


@dataclass
class _Step:
    """Statements of a loop from the call of a model to the backward pass, and what they take from the loop."""

    body: list[ast.stmt]
    zeroed: ast.stmt | None
    """The statement that clears gradients between them."""
    backward: ast.stmt
    text: str
    """How the backward pass of a part is written."""
    inputs: list[str]

    def edits(self, ctx: Context) -> list[Edit | None]:
        """Return what puts these statements into a loop over parts of the inputs."""
        parts = [f"{name}.chunk({_PARTS})" for name in self.inputs]
        over = parts[0] if len(parts) == 1 else f"zip({', '.join(parts)})"
        margin = ctx.source.indentation(self.backward.lineno)
        head = f"for {', '.join(self.inputs)} in {over}:"
        if not self.body:
            deeper = f"{ctx.source.newline}{margin}{unit_of(margin)}"
            return [ctx.replace(self.backward, f"{head}{deeper}{self.text}")]
        moved = [self.zeroed, self.backward] if self.zeroed is not None else [self.backward]
        if self.zeroed is not None:
            head = f"{ctx.source.segment(self.zeroed)}{ctx.source.newline}{margin}{head}"
        whole = put_under(ctx, self.body[0], self.body[-1], head, unit_of(margin) + self.text)
        return [whole, *(ctx.delete_statement(each) if is_plain(ctx, each) else None for each in moved)]


def _steps(ctx: Context, loop: ast.For | ast.While) -> Iterator[_Step]:
    block = loop.body
    bound = {*stored(loop.target)} if isinstance(loop, ast.For) else set[str]()
    for at, statement in enumerate(block):
        written = backward_of(ctx, statement)
        steps = any(calls(each, "step") for each in block[at + 1 :])
        if written is None or not steps:
            continue
        zeroed = block[at - 1] if at and calls(block[at - 1], "zero_grad") else None
        end = at - (zeroed is not None)
        may_be = [*range(end), at]
        first = next((k for k in may_be if is_computed(ctx, block[k], bound | names_of(block[:k]))), None)
        if first is None:
            continue
        body, own = block[first:end], bound | names_of(block[:first])
        inputs = [name for name in dict.fromkeys(n for s in (*body, statement) for n in loaded(s)) if name in own]
        step = _Step(body, zeroed if body else None, statement, written[1], inputs)
        if (first == at or {*loaded(written[0])} & names_of(body)) and _stands_alone(ctx, step, block):
            yield step


def names_of(statements: list[ast.stmt]) -> set[str]:
    """Return what statements bind."""
    return {name for statement in statements for name in stored(statement)}


def _stands_alone(ctx: Context, step: _Step, block: list[ast.stmt]) -> bool:
    """Say whether nothing else reads what the statements bind, and nothing behind them what they take."""
    if not step.inputs or not all(isinstance(each, _PLAIN) for each in step.body):
        return False
    within = {id(node) for each in (*step.body, step.backward) for node in ast.walk(each)}
    scope = ctx.function(step.backward) or ctx.tree
    reads = (n for n in ast.walk(scope) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
    if names_of(step.body) & {node.id for node in reads if id(node) not in within}:
        return False
    behind = block[block.index(step.backward) + 1 :]
    return not {*step.inputs} & {name for each in behind for name in loaded(each)}


def is_computed(ctx: Context, statement: ast.stmt, bound: set[str]) -> bool:
    """Say whether a statement calls something that is no part of torch, such as a model, with what a loop has bound."""
    for call in ast.walk(statement):
        if not isinstance(call, ast.Call) or (ctx.name(call.func) or "").startswith("torch."):
            continue
        root = call.func
        while isinstance(root, ast.Attribute):
            root = root.value
        own = isinstance(root, ast.Name) and root.id in bound
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        if not own and any(name in bound for value in given for name in loaded(value)):
            return True
    return False


def calls(statement: ast.stmt, name: str) -> bool:
    """Say whether a statement is the call of a method of this name, and nothing else."""
    match statement:
        case ast.Expr(ast.Call(ast.Attribute(_, called))):
            return called == name
        case _:
            return False


def backward_of(ctx: Context, statement: ast.stmt) -> tuple[ast.expr, str] | None:
    """Return the loss that goes backward, and how that of one part is written."""
    match statement:
        case ast.Expr(
            ast.Call(ast.Attribute(ast.Call(ast.Attribute(_, "scale") as scale, [loss], []), "backward"), [], [])
        ):
            return loss, f"{ctx.source_of(scale)}({as_operand(ctx, loss)} / {_PARTS}).backward()"
        case ast.Expr(ast.Call(ast.Attribute(loss, "backward"), [], [])):
            return loss, f"({as_operand(ctx, loss)} / {_PARTS}).backward()"
        case _:
            return None
