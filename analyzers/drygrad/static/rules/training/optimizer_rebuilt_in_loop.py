"""Rule DG714: optimizer rebuilt in the training loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context, Loop
from drygrad.static.editing import is_plain
from drygrad.static.roles import is_optimizer_class
from drygrad.static.rules.training.scalers import optimizer_of
from drygrad.static.steps import Event, Training, plain_trainings
from drygrad.static.syntax import bound_names
from drygrad.static.tree import walk


class OptimizerRebuiltInLoop(Rule):
    """
    ## What it does
    Finds optimizers that are recreated over the same parameters for every batch.

    ## Why is this bad?
    The optimizer's state (momentum, Adam's moments and step count) is reset in every batch: Adam always takes its first
    step, SGD has no momentum, and a scheduler has no effect.

    ## Example
    ```python
    for x, y in loader:
        optimizer = torch.optim.Adam(model.parameters())
        criterion(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    ```
    Use instead:
    ```python
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    ```

    ## Fix safety
    Unsafe: it changes the updates.
    """

    code, name, since = "DG714", "optimizer-rebuilt-in-loop", "0.1"
    severity = "warning"
    VALID = [
        Valid("""
            for fold in range(5):
                model = nn.Linear(3, 1)
                optimizer = torch.optim.Adam(model.parameters())
                for x in loader:
                    optimizer.zero_grad()
                    model(x).mean().backward()
                    optimizer.step()
        """),
        Valid("""
            for image in images:
                delta = torch.zeros_like(image, requires_grad=True)
                optimizer = torch.optim.Adam([delta])
                model(image + delta).mean().backward()
                optimizer.step()
        """),
        Valid("""
            for x in loader:
                if restart:
                    optimizer = torch.optim.Adam(model.parameters())
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
        """),
        Valid("""
            for x in loader:
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # has no state
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
        """),
    ]
    INVALID = [
        Invalid(
            """
            for x in loader:
                optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
            """,
            """
            optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
            for x in loader:
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
            """,
            at=(2, 16, 2, 61),
        ),
        Invalid(
            """
            def step(model, x):
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()

            def train(net, loader):
                for x in loader:
                    step(net, x)
            """
        ),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        for training in plain_trainings(ctx):
            for step in training.of("step"):
                made = self._made(ctx, step)
                loop = step.loops[0] if step.loops else None
                if made is None or loop is None or not self._is_rebuilt(ctx, training, made, loop):
                    continue
                yield ctx.finding(
                    self,
                    made,
                    "the optimizer is recreated for every batch; its state (momentum, Adam's moments) never builds up",
                    related=[("step() in this loop", step.node)],
                    fixes=[self._fix(ctx, made, loop)],
                )

    def _made(self, ctx: Context, step: Event) -> ast.Call | None:
        """Return the constructor call of the optimizer that steps, if its class keeps a state."""
        value = ctx.value(optimizer_of(step))
        node = getattr(value, "node", None)
        if not isinstance(node, ast.Call) or not is_optimizer_class(getattr(value, "type", "")):
            return None
        stateless = ctx.name(node.func) == "torch.optim.SGD" and not any(k.arg == "momentum" for k in node.keywords)
        return None if stateless or ctx.name(node.func) == "torch.optim.LBFGS" else node

    def _is_rebuilt(self, ctx: Context, training: Training, made: ast.Call, loop: Loop) -> bool:
        """Say whether a call stands unconditionally in the loop, or in the helper that is the loop's step."""
        if ctx.enclosing(made, ast.If, ast.Try) is not None or ctx.statement(made) not in _statements(
            ctx, training, loop
        ):
            return False
        bound = bound_names(loop)
        function = ctx.function(made)
        if function is not None and loop not in ctx.loops(made):
            bound = bound_names(function)
        used = {n.id for n in walk(made) if isinstance(n, ast.Name)}
        parameters = ast.unparse(made.args[0]) if made.args else ""
        return not used & bound and ".parameters()" in parameters

    def _fix(self, ctx: Context, made: ast.Call, loop: Loop) -> Fix | None:
        statement = ctx.statement(made)
        if statement not in loop.body or len(loop.body) < 2:
            return None
        if not is_plain(ctx, statement) or not is_plain(ctx, loop.body[1]):
            return None
        text = ctx.source_of(statement)
        return ctx.fix(
            "Create the optimizer before the loop", ctx.insert_statement(loop, text), ctx.delete_statement(statement)
        )


def _statements(ctx: Context, training: Training, loop: Loop) -> list[ast.stmt]:
    """Return the statements that each turn of a loop runs: its own, and those of the helpers that take its steps."""
    found = list(loop.body)
    for event in training.within(loop, "backward"):
        function = ctx.function(event.node)
        if event.via and event.loops[0] is loop and function is not None and not ctx.loops(event.node):
            found += function.body
    return found
