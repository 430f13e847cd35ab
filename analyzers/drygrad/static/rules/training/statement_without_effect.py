"""Rule DG719: a method that is named and not called, a context that is made and not entered."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.roles import role_of

_CONTEXTS = frozenset(
    "torch.no_grad torch.enable_grad torch.inference_mode torch.autograd.no_grad torch.autocast torch.amp.autocast "
    "torch.amp.autocast_mode.autocast torch.cuda.amp.autocast torch.autograd.grad_mode.no_grad "
    "torch.autograd.detect_anomaly torch.autograd.profiler.profile".split()
)
_METHODS = {
    "model": frozenset({"eval", "train", "zero_grad", "cuda", "half", "parameters"}),
    "optimizer": frozenset({"step", "zero_grad"}),
    "scheduler": frozenset({"step"}),
    "scaler": frozenset({"update"}),
    "tensor": frozenset({"backward", "zero_", "detach_", "requires_grad_"}),
}


class StatementWithoutEffect(Rule):
    """
    ## What it does
    Finds methods that are named but not called, such as `model.eval` or `optimizer.step`, and context managers such as
    `torch.no_grad()` that are created but not entered with `with`.

    ## Why is this bad?
    Nothing happens, and nothing raises: the model stays in training mode, the optimizer takes no step, gradients are
    still recorded.

    ## Example
    ```python
    model.eval
    torch.no_grad()
    predictions = model(x)
    ```
    Use instead:
    ```python
    model.eval()
    with torch.no_grad():
        predictions = model(x)
    ```

    ## Fix safety
    Unsafe: code that had no effect now has one.
    """

    code, name, since = "DG719", "statement-without-effect", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            def predict(model, x):
                model.eval()
                torch.set_grad_enabled(False)
                guard = torch.no_grad()
                with guard:
                    return model(x)
            """
        ),
        Valid(
            """
            def describe(report, model):
                report.eval
                return model.training
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            def predict(model, x):
                model.eval
                with torch.no_grad():
                    return model(x)
            """,
            """
            def predict(model, x):
                model.eval()
                with torch.no_grad():
                    return model(x)
            """,
            at=(2, 4, 2, 14),
        ),
        Invalid(
            """
            def predict(model, x):
                torch.no_grad()
                return model(x)
            """,
            at=(2, 4, 2, 19),
        ),
        Invalid(
            """
            model = nn.Linear(2, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x in torch.randn(4, 2):
                optimizer.zero_grad
                model(x).sum().backward()
                optimizer.step()
            """,
            """
            model = nn.Linear(2, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x in torch.randn(4, 2):
                optimizer.zero_grad()
                model(x).sum().backward()
                optimizer.step()
            """,
        ),
    ]

    def visit_statement(self, node: ast.Expr, ctx: Context) -> Iterator[Finding]:
        match node.value:
            case ast.Attribute(attr=name) as method if name in _METHODS.get(role_of(ctx, method.value) or "", ()):
                fix = ctx.fix(f"Call `{name}()`", ctx.insert_after(method, "()"))
                yield ctx.finding(self, method, f"{name} is not called, so this statement has no effect", fixes=[fix])
            case ast.Call() as call if ctx.name(call.func) in _CONTEXTS:
                message = f"{ctx.source_of(call.func)} is a context manager; without a with statement it has no effect"
                yield ctx.finding(self, call, message)
            case _:
                return
