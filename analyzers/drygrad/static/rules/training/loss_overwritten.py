"""Rule DG734: a total loss that each turn of a loop replaces."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Edit, Finding, Invalid, Rule, Span, Valid
from drygrad.static.context import Context, Loop
from drygrad.static.facts.values import Constant, Tensor
from drygrad.static.roles import role_of_name
from drygrad.static.syntax import block_of, bound_names, last_assignment, own_nodes
from drygrad.static.tree import walk


class LossOverwritten(Rule):
    """
    ## What it does
    Finds `loss = ...` in a loop if `loss` starts as 0 before the loop, is not read in it, and is backpropagated or
    returned after it.

    ## Why is this bad?
    Each iteration overwrites the result of the previous one: only the last time step, the last head or the last pair is
    trained. The initial 0 suggests that a sum was intended.

    ## Example
    ```python
    loss = 0
    for t in range(steps):
        loss = F.cross_entropy(head(states[t]), targets[t])
    loss.backward()
    ```
    Use instead:
    ```python
    loss = 0
    for t in range(steps):
        loss += F.cross_entropy(head(states[t]), targets[t])
    loss.backward()
    ```

    ## Fix safety
    Unsafe: it changes the value of the loss.
    """

    code, name, since = "DG734", "loss-overwritten", "0.1"
    severity = "warning"
    VALID = [
        Valid("def f(xs, y):\n    loss = 0\n    for x in xs:\n        loss = loss + F.mse_loss(x, y)\n    return loss"),
        Valid(
            "def f(xs, y):\n    loss = 0\n    for x in xs:\n        loss = F.mse_loss(x, y)\n        loss.backward()\n"
            "    print(loss)"
        ),
        Valid(
            "def f(xs, y):\n    loss = 0\n    for x in xs:\n        if x.any():\n            loss = F.mse_loss(x, y)\n"
            "            break\n    return loss"
        ),
        Valid("def f(xs):\n    last = 0\n    for x in xs:\n        last = x.sum()\n    return last"),
        Valid("def f(xs, y):\n    for x in xs:\n        loss = F.mse_loss(x, y)\n    return loss"),
    ]
    INVALID = [
        Invalid(
            """
            def loss_of(head, states, targets):
                loss = 0.0
                for t in range(len(targets)):
                    loss = F.cross_entropy(head(states[t]), targets[t])
                return loss / len(targets)
            """,
            """
            def loss_of(head, states, targets):
                loss = 0.0
                for t in range(len(targets)):
                    loss += F.cross_entropy(head(states[t]), targets[t])
                return loss / len(targets)
            """,
            at=(4, 8, 4, 59),
        ),
        Invalid(
            "total = torch.zeros(())\nfor x, y in pairs:\n    total = F.mse_loss(net(x), y)\ntotal.backward()",
            "total = torch.zeros(())\nfor x, y in pairs:\n    total += F.mse_loss(net(x), y)\ntotal.backward()",
        ),
    ]

    def visit_assign(self, node: ast.Assign, ctx: Context) -> Iterator[Finding]:
        match node:
            case ast.Assign(targets=[ast.Name(id=name) as target], value=value):
                pass
            case _:
                return
        parent = ctx.parent(node)
        if not isinstance(parent, (ast.For, ast.While)) or node not in parent.body or not _is_loss(ctx, target, value):
            return
        inside = [n for part in parent.body for n in own_nodes(part)]
        uses = [n for n in inside if isinstance(n, ast.Name) and n.id == name]
        leaves = any(isinstance(n, (ast.Break, ast.Return, ast.Yield)) for n in inside)
        if (
            leaves
            or uses != [target]
            or not _begins_at_zero(ctx, parent, name)
            or not _is_read_after(ctx, parent, name)
        ):
            return
        edit = Edit(Span(ctx.source.end(target), ctx.source.start(value)), " += ")
        message = f"every iteration overwrites {name}; only the last one counts"
        yield ctx.finding(self, node, message, fixes=[ctx.fix("Accumulate it", edit)])


def _is_loss(ctx: Context, target: ast.Name, value: ast.expr) -> bool:
    tensor = ctx.tensor(value)
    named = role_of_name(target) == "loss" or "loss" in target.id.lower()
    made_by_loss = tensor is not None and tensor.origin is not None and "loss" in tensor.origin.operation
    entropy = tensor is not None and tensor.made_by("cross_entropy", "binary_cross_entropy_with_logits", "kl_div")
    return (named and isinstance(value, (ast.Call, ast.BinOp))) or made_by_loss or entropy


def _begins_at_zero(ctx: Context, loop: Loop, name: str) -> bool:
    """Say whether a name is 0 when a loop begins."""
    given = last_assignment(ctx, name, loop)
    value = ctx.value(given)
    if isinstance(value, Tensor):
        return value.made_by("zeros") or (value.range is not None and value.range.is_always(0))
    return isinstance(value, Constant) and value.value == 0 and not isinstance(value.value, bool)


def _is_read_after(ctx: Context, loop: Loop, name: str) -> bool:
    """Say whether a name is read behind a loop, in its own block, before it is set anew."""
    block = block_of(ctx, loop)
    for statement in block[block.index(loop) + 1 :]:
        if any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in walk(statement)):
            return True
        if name in bound_names(statement):
            return False
    return False
