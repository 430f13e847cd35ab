"""Rule DG724: float16 training without a GradScaler."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.steps import Event, Training, plain_trainings


class Fp16WithoutScaler(Rule):
    """
    ## What it does
    Finds training under float16 autocast without a `GradScaler`.

    ## Why is this bad?
    Gradients below 6e-8 underflow to zero in float16, so some layers stop learning, without an error. A `GradScaler`
    multiplies the loss to keep gradients in range. bfloat16 has the range of float32 and needs none.

    ## Example
    ```python
    with torch.autocast("cuda", dtype=torch.float16):
        loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    ```
    Use instead:
    ```python
    with torch.autocast("cuda", dtype=torch.float16):
        loss = criterion(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Fix safety
    A dry run tries bfloat16. Unsafe: it has less precision, and old GPUs do not support it.
    """

    code, name, since = "DG724", "fp16-without-scaler", "0.1"
    severity = "warning"
    VALID = [
        Valid("""
            def f(model, x, y, optimizer, scaler):
                with torch.autocast("cuda"):
                    loss = F.mse_loss(model(x), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
        """),
        Valid("""
            def f(model, x, y, optimizer):
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss = F.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()
        """),
        Valid("""
            def f(model, x, y, optimizer, dtype):
                with torch.autocast("cuda", dtype=dtype):
                    loss = F.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()
        """),
        Valid("""
            def f(model, x, y, optimizer, loss_scaler):
                with torch.autocast("cuda"):
                    loss = F.mse_loss(model(x), y)
                loss_scaler(loss, optimizer)
        """),
        Valid("""
            def f(model, x, y, optimizer):
                with torch.no_grad(), torch.autocast("cuda"):
                    target = model(x)
                loss = F.mse_loss(model(x), target)
                loss.backward()
                optimizer.step()
        """),
    ]
    INVALID = [
        Invalid(
            """
            def f(model, x, y, optimizer):
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = F.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()
            """,
            at=(4, 4, 4, 19),
        ),
        Invalid("""
            model = nn.Linear(8, 2).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            criterion = nn.CrossEntropyLoss()
            for epoch in range(3):
                for x, y in loader:
                    optimizer.zero_grad()
                    with torch.autocast("cuda"):
                        loss = criterion(model(x.cuda()), y.cuda())
                    loss.backward()
                    optimizer.step()
        """),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        if "scaler" in ctx.source.text.lower():
            return
        for training in plain_trainings(ctx):
            if training.hides(None, "optimizer", "loss") or not training.of("step"):
                continue
            for backward in training.of("backward"):
                forward = self._half_forward(ctx, training, backward)
                if forward is not None:
                    yield ctx.finding(
                        self,
                        backward.node,
                        "the float16 loss is not scaled, so gradients below 6e-8 become zero; use a GradScaler, or "
                        "bfloat16",
                        related=[("computed in float16", forward.node)],
                    )

    def _half_forward(self, ctx: Context, training: Training, backward: Event) -> Event | None:
        """Return the last forward or loss before a backward, where it runs in float16 and records a graph."""
        for event in reversed(training.events[: backward.index]):
            if event.kind in ("forward", "loss"):
                half = ctx.autocast(event.statement) == "float16" and ctx.grad_enabled(event.statement) is True
                return event if half and event.loops == backward.loops else None
        return None
