"""Rule DG118: the gradient of a tensor that is no leaf."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import Origin, Tensor
from drygrad.static.syntax import body_nodes, calls_in, scope_of


class GradientOfResult(Rule):
    """
    ## What it does
    Finds `x.grad` of a tensor that is the result of an operation, such as `x = torch.randn(3,
    requires_grad=True).cuda()`.

    ## Why is this bad?
    `backward()` stores gradients only in leaves, the tensors that were created with `requires_grad=True`. For any other
    tensor `grad` is None, with a warning: code that reads it fails, or silently learns nothing.

    ## Example
    ```python
    x = torch.randn(3, requires_grad=True).to(device)
    model(x).sum().backward()
    step = x.grad
    ```
    Use instead:
    ```python
    x = torch.randn(3, device=device, requires_grad=True)
    model(x).sum().backward()
    step = x.grad
    ```

    ## Fix safety
    Safe: the gradient was None and is now kept; nothing else changes.
    """

    code, name, since = "DG118", "gradient-of-result", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            def slope(model, x: torch.Tensor):
                x = x.detach().clone().requires_grad_()
                y = model(x)
                y.retain_grad()
                y.sum().backward()
                return x.grad, y.grad
            """
        ),
        Valid(
            """
            x = torch.randn(3, requires_grad=True)
            y = x * 2
            y.sum().backward()
            print(x.grad)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            x = (torch.randn(3, requires_grad=True) * 0.1)
            x.pow(2).sum().backward()
            step = x - 0.1 * x.grad
            """,
            """
            x = (torch.randn(3, requires_grad=True) * 0.1)
            x.retain_grad()
            x.pow(2).sum().backward()
            step = x - 0.1 * x.grad
            """,
            at=(3, 17, 3, 23),
        ),
    ]

    def visit_gradient(self, node: ast.Attribute, ctx: Context) -> Iterator[Finding]:
        if node.attr != "grad" or not isinstance(node.ctx, ast.Load):
            return
        tensor, text = ctx.tensor(node.value), dotted_text(node.value)
        if tensor is None or text is None or not _is_result(tensor) or _is_kept(node, ctx):
            return
        if not _is_assigned(text, tensor, ctx):
            return
        assert tensor.origin is not None
        message = f"`{text}` is not a leaf, so backward() leaves its .grad as None"
        yield ctx.finding(
            self, node, message, related=[("created here", tensor.origin.node)], fixes=[_fix(text, tensor.origin, ctx)]
        )


def _is_result(tensor: Tensor) -> bool:
    return tensor.requires_grad is True and tensor.leaf is False and not tensor.parameter and tensor.origin is not None


def _is_assigned(text: str, tensor: Tensor, ctx: Context) -> bool:
    """Say whether the operation that made the tensor stands in the statement that gives it its name."""
    assert tensor.origin is not None
    match ctx.statement(tensor.origin.node):
        case ast.Assign(targets=[target]):
            return dotted_text(target) == text
        case _:
            return False


def _is_kept(node: ast.AST, ctx: Context) -> bool:
    """Say whether the function asks for the gradient to be kept, or whether there is one."""
    scope = scope_of(node, ctx)
    if isinstance(ctx.parent(node), ast.Compare):
        return True
    if any(isinstance(part, ast.Attribute) and part.attr == "is_leaf" for part in body_nodes(scope)):
        return True
    kept = (call.func for call in calls_in(scope) if isinstance(call.func, ast.Attribute))
    return any(function.attr in ("retain_grad", "register_hook") for function in kept)


def _fix(text: str, origin: Origin, ctx: Context) -> Fix | None:
    statement = ctx.statement(origin.node)
    match statement:
        case ast.Assign(targets=[target]) if dotted_text(target) == text:
            edit = ctx.insert_statement(statement, f"{text}.retain_grad()", after=True)
            return ctx.fix("Call `retain_grad()` to keep the gradient", edit, safety="safe")
        case _:
            return None
