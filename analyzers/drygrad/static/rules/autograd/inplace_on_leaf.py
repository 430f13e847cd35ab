"""Rule DG102: an in-place write to a leaf that requires grad."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import put_under
from drygrad.static.facts.events import InplaceWrite
from drygrad.static.facts.operations import VIEWS
from drygrad.static.facts.values import Tensor, is_unknown
from drygrad.static.rules.autograd.graph import mode_is_shown, recorded
from drygrad.static.rules.autograd.inplace import counts, spelled
from drygrad.static.tree import walk

STEPS = frozenset({"add_", "sub_", "mul_", "div_", "addcdiv_", "addcmul_"})
"""Methods that a step of gradient descent is written with."""


class InplaceOnLeaf(Rule):
    """
    ## What it does
    Finds in-place writes to a parameter, or to another leaf tensor with `requires_grad=True`, while gradients are
    recorded.

    ## Why is this bad?
    torch raises `a leaf Variable that requires grad is being used in an in-place operation`: after the write the tensor
    would be the result of an operation, and no longer a leaf that collects a gradient. Under `torch.no_grad()` the
    write is allowed; that is how optimizers update parameters.

    ## Example
    ```python
    w -= lr * w.grad
    ```
    Use instead:
    ```python
    with torch.no_grad():
        w -= lr * w.grad
    ```

    ## Fix safety
    Safe: the write raised before, or ran without gradients anyway.
    """

    code, name, since = "DG102", "inplace-on-leaf", "0.1"
    severity = "error"
    VALID = [
        Valid("w = torch.rand(3, requires_grad=True)\nwith torch.no_grad():\n    w -= 0.1"),
        Valid("w = torch.rand(3, requires_grad=True)\nw = w - 0.1\nw.add_(1)"),
        Valid("w = torch.rand(3)\nw.mul_(2)\nw.requires_grad_()"),
        Valid("w = torch.rand(3, requires_grad=True)\nw.sum().backward()\nw.grad.zero_()\nw.detach().zero_()"),
        Valid("fc = nn.Linear(2, 2)\nnn.init.zeros_(fc.bias)\nnn.init.normal_(fc.weight, std=0.02)"),
        Valid("w = torch.rand(3, requires_grad=True)\nw.data.add_(1)\nw.requires_grad_(False)\nw.add_(1)"),
        Valid("w = torch.rand(3, requires_grad=True)\nF.dropout(w, 0.5, training=False, inplace=True)"),
        Valid("@torch.no_grad()\ndef reset(layer: nn.Linear):\n    layer.weight.fill_(1)"),
        Valid(
            """
            def step(params, rate):
                for p in params:
                    p.data -= rate * p.grad
                    p.grad *= 0.5

            @torch.no_grad()
            def descend(p, rate):
                p -= rate * p.grad
            """
        ),
        Valid(
            """
            from torchao.quantization import quantize_

            class Toy(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.linear = nn.Linear(3, 3)

            def load(state, config):
                model = Toy().eval()
                quantize_(model, config)
                model.linear.weight.copy_(state["linear.weight"])
                return model
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            def train(model, x, rate):
                model(x).sum().backward()
                for p in model.parameters():
                    p.add_(p.grad, alpha=-rate)
            """,
            """
            def train(model, x, rate):
                model(x).sum().backward()
                for p in model.parameters():
                    with torch.no_grad():
                        p.add_(p.grad, alpha=-rate)
            """,
            severity="warning",
        ),
        Invalid(
            "w = torch.rand(3, requires_grad=True)\n(w * w).sum().backward()\nw -= 0.1 * w.grad  # step",
            "w = torch.rand(3, requires_grad=True)\n(w * w).sum().backward()\n"
            "with torch.no_grad():\n    w -= 0.1 * w.grad  # step",
            at=(3, 0, 3, 1),
        ),
        Invalid(
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.scale = nn.Parameter(torch.ones(3))
                    self.fc = nn.Linear(3, 3)
                    self.fc.weight.normal_(
                        std=0.02,
                    )

                def forward(self, x):
                    return self.fc(x) * self.scale

            net = Net()
            """,
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.scale = nn.Parameter(torch.ones(3))
                    self.fc = nn.Linear(3, 3)
                    with torch.no_grad():
                        self.fc.weight.normal_(
                            std=0.02,
                        )

                def forward(self, x):
                    return self.fc(x) * self.scale

            net = Net()
            """,
        ),
        Invalid(
            "w = torch.rand(3, 3, requires_grad=True)\nw[0] = 1.0",
            "w = torch.rand(3, 3, requires_grad=True)\nwith torch.no_grad():\n    w[0] = 1.0",
            at=(2, 0, 2, 1),
        ),
        Invalid(
            "w = nn.Parameter(torch.rand(4))\nif fresh: w.view(2, 2).zero_()",
            severity="error",
        ),
        Invalid("x = torch.rand(3, requires_grad=True)\nx.clamp_(min=1e-6)\ny = x.log()", """
            x = torch.rand(3, requires_grad=True)
            with torch.no_grad():
                x.clamp_(min=1e-6)
            y = x.log()""".replace("\n            ", "\n").removeprefix("\n")),
    ]  # fmt: skip

    def visit_write(self, write: InplaceWrite, ctx: Context) -> Iterator[Finding]:
        if write.grad_enabled is not True or not counts(write):
            return
        leaf = _leaf(write.target)
        if leaf is None:
            return
        shown = mode_is_shown(ctx, write.node)
        what = "a parameter" if leaf.parameter else "a leaf that requires grad"
        view = "" if leaf is write.target else "a view of "
        yield ctx.finding(
            self,
            write.expression,
            f"`{ctx.source_of(write.expression)}` is {view}{what}; {spelled(write)} in place raises outside "
            "torch.no_grad()" + ("" if shown else ", unless the caller has disabled gradients"),
            severity="error" if shown else "warning",
            fixes=[_fix(write.node, ctx)],
        )

    def visit_assignment(self, node: ast.AugAssign, ctx: Context) -> Iterator[Finding]:
        """``w -= lr * w.grad``, whatever ``w`` is."""
        yield from self._stepped(node, node.target, [node.value], ctx)

    def visit_method(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        """``w.sub_(lr * w.grad)``, whatever ``w`` is."""
        match node.func:
            case ast.Attribute(value=written, attr=name) if name in STEPS:
                yield from self._stepped(node, written, [*node.args, *(k.value for k in node.keywords)], ctx)
            case _:
                pass

    def _stepped(
        self, node: ast.AugAssign | ast.Call, written: ast.expr, added: list[ast.expr], ctx: Context
    ) -> Iterator[Finding]:
        """What is written with its own gradient is a leaf that has one: nothing else keeps it."""
        text = ctx.text(written)
        if text is None or text.endswith(".data") or not is_unknown(ctx.quantity(written)):
            return
        gradients = (n for value in added for n in walk(value) if isinstance(n, ast.Attribute) and n.attr == "grad")
        if not any(ctx.text(gradient.value) == text for gradient in gradients) or recorded(ctx, node) is not True:
            return
        shown = mode_is_shown(ctx, node)
        yield ctx.finding(
            self,
            written,
            f"`{text}` has a gradient, so it is a leaf that requires grad; writing it in place raises outside "
            "torch.no_grad()" + ("" if shown else ", unless the caller has disabled gradients"),
            severity="warning",
            fixes=[_fix(node, ctx)],
        )


def _leaf(tensor: Tensor) -> Tensor | None:
    """Return the leaf that requires grad whose memory is written; None where there is none."""
    while tensor.requires_grad is True:
        if tensor.leaf:
            return tensor
        if tensor.origin is None or tensor.origin.operation not in VIEWS or tensor.storage is None:
            return None
        viewed = tensor.origin.operands[0] if tensor.origin.operands else None
        if not isinstance(viewed, Tensor) or viewed.storage is not tensor.storage:
            return None
        tensor = viewed
    return None


def _fix(node: ast.AST, ctx: Context) -> Fix | None:
    """Put the statement under no_grad, where it does nothing but write."""
    statement, torch = ctx.statement(node), ctx.imported_as("torch")
    simple = isinstance(statement, (ast.AugAssign, ast.Assign, ast.Expr))
    written = statement is node or getattr(statement, "value", None) is node
    written = written or (isinstance(statement, ast.Assign) and node in statement.targets)
    if not simple or not written or torch is None:
        return None
    edit = put_under(ctx, statement, statement, f"with {torch}.no_grad():")
    return ctx.fix("Wrap the write in `torch.no_grad()`", edit, safety="safe")
