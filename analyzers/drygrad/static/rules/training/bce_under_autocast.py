"""Rule DG725: binary_cross_entropy under CUDA autocast."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.rules.training.autocasting import active_autocast, device_of


class BceUnderAutocast(Rule):
    """
    ## What it does
    Finds `binary_cross_entropy` and `BCELoss` under CUDA autocast.

    ## Why is this bad?
    CUDA autocast rejects them with "unsafe to autocast": the gradient of the loss with respect to a small float16
    probability may be too large for float16. `binary_cross_entropy_with_logits` on the values before the sigmoid is
    safe. CPU autocast computes the loss in float32 and does not raise.

    ## Example
    ```python
    with torch.autocast("cuda"):
        loss = F.binary_cross_entropy(torch.sigmoid(logits), target)
    ```
    Use instead:
    ```python
    with torch.autocast("cuda"):
        loss = F.binary_cross_entropy_with_logits(logits, target)
    ```

    ## Fix safety
    No fix: the sigmoid must leave the model, whose probabilities other code may need.
    """

    code, name, since = "DG725", "bce-under-autocast", "0.1"
    severity = "error"
    calls = frozenset({"binary_cross_entropy"})
    VALID = [
        Valid("""
            def f(z, y):
                with torch.autocast("cuda"):
                    return F.binary_cross_entropy_with_logits(z, y)
        """),
        Valid("""
            def f(p, y):
                with torch.autocast("cpu"):
                    return F.binary_cross_entropy(p, y)
        """),
        Valid("""
            def f(model, x, y):
                with torch.autocast("cuda"):
                    p = model(x)
                return F.binary_cross_entropy(p.float(), y)
        """),
        Valid("""
            def f(model, x, y):
                with torch.autocast("cuda"):
                    p = model(x)
                    with torch.autocast("cuda", enabled=False):
                        return F.binary_cross_entropy(p.float(), y)
        """),
    ]
    INVALID = [
        Invalid(
            """
            def f(model, x, y):
                with torch.autocast("cuda"):
                    p = model(x)
                    return F.binary_cross_entropy(p, y)
            """,
            at=(4, 15, 4, 37),
        ),
        Invalid("""
            criterion = nn.BCELoss()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast(device_type="cuda", dtype=torch.float16):
                    loss = criterion(model(x.cuda()), y.cuda())
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
        """),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        active = active_autocast(ctx, node)
        if active is not None and device_of(active[1]) == "cuda" and ctx.autocast(node) != "off":
            yield ctx.finding(
                self,
                node.func,
                "binary_cross_entropy raises under CUDA autocast; use binary_cross_entropy_with_logits on the logits",
                related=[("autocast is enabled here", active[0].items[0].context_expr)],
            )
