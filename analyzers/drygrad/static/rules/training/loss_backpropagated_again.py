"""Rule DG776: one loss that each turn of a loop backpropagates again."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context, Loop
from drygrad.static.loops import repeats
from drygrad.static.rules.training.iterations import binds
from drygrad.static.steps import Event, Training, plain_trainings
from drygrad.static.syntax import argument
from drygrad.static.tree import walk


class LossBackpropagatedAgain(Rule):
    """
    ## What it does
    Finds a loop that calls `backward()` in each iteration on a loss computed before the loop.

    ## Why is this bad?
    The second iteration raises `Trying to backward through the graph a second time`. With `retain_graph=True` it adds
    the same gradients again: the step applies the gradient as many times as there were iterations.

    Loops that clear or read the gradients, or assign to the loss, are not reported.

    ## Example
    ```python
    loss = criterion(model(x), y)
    for _ in range(3):
        loss.backward(retain_graph=True)
    optimizer.step()
    ```
    Use instead:
    ```python
    for _ in range(3):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    ```

    ## Fix safety
    No fix: whether to compute the loss in each iteration or to backpropagate it once is for you to decide.
    """

    code, name, since = "DG776", "loss-backpropagated-again", "0.1"
    severity = "warning"
    VALID = [
        Valid("for _ in range(3):\n    loss = model(x).sum()\n    loss.backward()"),
        Valid("y = model(x)\nfor i in range(3):\n    y[i].backward(retain_graph=True)"),
        Valid("losses = [model(x).sum()]\nfor loss in losses:\n    loss.backward()"),
        Valid(  # each gradient is read
            "y = model(x).sum()\nfor _ in range(3):\n    y.backward(retain_graph=True)\n    print(w.grad)"
        ),
        Valid("loss = model(x).sum()\nfor p in groups:\n    loss.backward(retain_graph=True)\n    collect(model)"),
        Valid("loss = model(x).sum()\nfor _ in range(1):\n    loss.backward()"),
        Valid("loss = model(x).sum()\nwhile True:\n    loss.backward()\n    break"),
        Valid("loss = model(x).sum()\nfor p in weights:\n    loss.backward(inputs=[p], retain_graph=True)"),
    ]
    INVALID = [
        Invalid(
            """
            loss = F.mse_loss(model(x), y)
            for _ in range(3):
                loss.backward(retain_graph=True)
            optimizer.step()
            """,
            at=(3, 4, 3, 36),
        ),
        Invalid(
            """
            def back(e):
                e.backward()

            for x, y in loader:
                optimizer.zero_grad()
                e = F.mse_loss(model(x), y)
                for k in range(2):
                    back(e)
                optimizer.step()
            """,
        ),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        reported: set[ast.AST] = set()
        for training in plain_trainings(ctx):
            for backward in training.of("backward"):
                loop = backward.loops[0] if backward.loops else None
                if loop is None or backward.node in reported or not _repeats_it(ctx, training, backward, loop):
                    continue
                reported.add(backward.node)
                consequence = (
                    "with retain_graph=True the same gradients are added again"
                    if isinstance(backward.node, ast.Call) and argument(backward.node, "retain_graph") is not None
                    else "the second iteration raises because the first has freed the graph"
                )
                yield ctx.finding(
                    self,
                    backward.node,
                    f"every iteration calls backward() on {backward.receiver}, computed before the loop; {consequence}",
                    related=[("the loop", loop.iter if isinstance(loop, ast.For) else backward.node)],
                )


def _repeats_it(ctx: Context, training: Training, backward: Event, loop: Loop) -> bool:
    """Say whether a loop surely runs backward of the same loss in more than one turn, for nothing."""
    if not isinstance(loop, ast.For) or not repeats(loop) or backward.branches_in(loop) or backward.receiver is None:
        return False
    if "engine" in backward.roles or binds(loop, backward.receiver) or backward.receiver.startswith("self."):
        return False
    if training.within(loop, "zero_grad", "grad_edit", "hand_step", "autograd_grad", "unseen"):
        return False
    node = backward.node
    if not isinstance(node, ast.Call) or node.args or argument(node, "inputs") or argument(node, "gradient"):
        return False
    leaves = any(isinstance(n, (ast.Break, ast.Return, ast.Yield)) for n in walk(loop))
    reads = any(isinstance(n, ast.Attribute) and n.attr == "grad" for n in walk(loop))
    return not leaves and not reads and _is_computed_before(training, backward, loop)


def _is_computed_before(training: Training, backward: Event, loop: Loop) -> bool:
    """Say whether the forward pass stands in front of the loop: in it, nothing runs a model or a loss."""
    return not training.within(loop, "forward", "loss") and any(
        event.kind in ("forward", "loss") and event.index < backward.index for event in training.events
    )
