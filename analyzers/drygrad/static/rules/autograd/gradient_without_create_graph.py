"""Rule DG116: a gradient that is differentiated, and has no graph."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Severity, Valid
from drygrad.static.context import Context
from drygrad.static.editing import with_keyword
from drygrad.static.facts.gradients import GRADIENT
from drygrad.static.facts.values import Tensor, Value
from drygrad.static.rules.autograd.terms import differentiated, terms_of


class GradientWithoutCreateGraph(Rule):
    """
    ## What it does
    Finds results of `torch.autograd.grad(...)` without `create_graph=True` that are differentiated again: by another
    `grad`, or as a term of the loss.

    ## Why is this bad?
    Without `create_graph` the gradient is a constant. Differentiating it again raises "does not require grad". As a
    term of a loss it raises nothing: its value is added and even changes from step to step, but it has no gradient.
    Forces are never fitted; a gradient penalty penalizes nothing. `retain_graph=True` keeps the first graph for another
    backward but does not build one for the gradient.

    ## Example
    ```python
    (force,) = torch.autograd.grad(energy.sum(), positions, retain_graph=True)
    loss = F.mse_loss(energy, target) + F.mse_loss(-force, target_force)
    loss.backward()
    ```
    Use instead:
    ```python
    (force,) = torch.autograd.grad(energy.sum(), positions, create_graph=True)
    loss = F.mse_loss(energy, target) + F.mse_loss(-force, target_force)
    loss.backward()
    ```

    ## Fix safety
    Unsafe: the term now affects training, and backward takes a second pass through the graph.
    """

    code, name, since = "DG116", "gradient-without-create-graph", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            def penalty(critic: nn.Linear, x):
                x.requires_grad_()
                (slope,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
                loss = ((slope.norm(dim=1) - 1) ** 2).mean()
                loss.backward()
            """
        ),
        Valid(
            """
            def first_order_maml(model: nn.Linear, x, y, lr):
                (slope,) = torch.autograd.grad(F.mse_loss(model(x), y), model.weight)
                fast = model.weight - lr * slope
                F.mse_loss(F.linear(x, fast), y).backward()
            """
        ),
        Valid(
            """
            def attack(model: nn.Linear, x: torch.Tensor, y):
                x.requires_grad_()
                (slope,) = torch.autograd.grad(F.cross_entropy(model(x), y), x)
                loss = F.cross_entropy(model(x + 0.1 * slope.sign()), y)
                loss.backward()
                print(slope.norm())
            """
        ),
        Valid(
            """
            def forces(energy, positions, training):
                (slope,) = torch.autograd.grad(energy, positions, create_graph=training)
                loss = F.mse_loss(slope, positions)
                loss.backward()
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            def step(model, positions, energies, forces):
                positions.requires_grad_()
                energy = model(positions)
                (slope,) = torch.autograd.grad(energy.sum(), positions, retain_graph=True)
                loss = F.mse_loss(energy, energies) + 10 * F.mse_loss(-slope, forces)
                loss.backward()
            """,
            """
            def step(model, positions, energies, forces):
                positions.requires_grad_()
                energy = model(positions)
                (slope,) = torch.autograd.grad(energy.sum(), positions, retain_graph=True, create_graph=True)
                loss = F.mse_loss(energy, energies) + 10 * F.mse_loss(-slope, forces)
                loss.backward()
            """,
            at=(4, 15, 4, 78),
        ),
        Invalid(
            """
            def residual(net, x):
                u = net(x)
                u_x = torch.autograd.grad(u, x, grad_outputs=torch.ones_like(u))[0]
                u_xx = torch.autograd.grad(u_x, x, grad_outputs=torch.ones_like(u_x), create_graph=True)[0]
                return u_xx - u
            """,
            """
            def residual(net, x):
                u = net(x)
                u_x = torch.autograd.grad(u, x, grad_outputs=torch.ones_like(u), create_graph=True)[0]
                u_xx = torch.autograd.grad(u_x, x, grad_outputs=torch.ones_like(u_x), create_graph=True)[0]
                return u_xx - u
            """,
            severity="error",
        ),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        reported: set[ast.AST] = set()
        for place, value, severity in (*_differentiated_again(ctx), *_terms(ctx)):
            call = _gradient_behind(value)
            if call is None or call in reported:
                continue
            reported.add(call)
            how = "differentiating it raises" if severity == "error" else "this loss term has no gradient"
            yield ctx.finding(
                self,
                call,
                f"without create_graph=True the gradient is a constant: {how}",
                severity=severity,
                related=[("differentiated here", place)],
                fixes=[ctx.fix("Pass `create_graph=True`", with_keyword(ctx, call, "create_graph", "True"))],
            )


def _differentiated_again(ctx: Context) -> Iterator[tuple[ast.Call, Value, Severity | None]]:
    for node in ctx.nodes(ast.Call):
        call = ctx.call(node)
        if call is not None and call.target == "torch.autograd.grad":
            value = call.value("outputs")
            if isinstance(value, Tensor) and value.requires_grad is False:
                yield node, value, "error"


def _terms(ctx: Context) -> Iterator[tuple[ast.Call, Value, Severity | None]]:
    for backward, root in differentiated(ctx):
        for term in terms_of(root):
            if isinstance(term, Tensor) and not term.requires_grad and _has_no_other_source(term):
                yield backward, term, None


def _gradient_behind(value: Value) -> ast.Call | None:
    """Return the call of ``grad`` that took a value out of the graph."""
    if not isinstance(value, Tensor) or not isinstance(value.cut, ast.Call):
        return None
    waiting, seen = [value], set[int]()
    while waiting:
        origin = waiting.pop().origin
        if origin is None or id(origin) in seen:
            continue
        seen.add(id(origin))
        if origin.operation == GRADIENT and origin.node is value.cut:
            return value.cut
        if origin.operation != "detach":
            waiting.extend(operand for operand in origin.operands if isinstance(operand, Tensor))
    return None


def _has_no_other_source(term: Tensor) -> bool:
    """Say whether all that a term is computed of is the gradient, and what the function was given."""
    origin = term.origin
    others = [v for v in (origin.operands if origin is not None else ()) if isinstance(v, Tensor) and v.cut is None]
    return term.requires_grad is False or all(other.origin is None or other.made_by("batch") for other in others)
