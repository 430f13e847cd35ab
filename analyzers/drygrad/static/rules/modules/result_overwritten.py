"""Rule DG757: a result that is replaced before anything has read it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.operations import FACTORIES, LOSSES
from drygrad.static.facts.values import Object, Tensor
from drygrad.static.rules.modules.methods import module_around
from drygrad.static.syntax import block_of, bound_names
from drygrad.static.tree import walk


class ResultOverwritten(Rule):
    """
    ## What it does
    Finds the result of a layer, or a loss, that is assigned to a name and overwritten before anything reads it.

    ## Why is this bad?
    The computed value is lost: the next line uses `x` instead of `out`, or `=` instead of `+=`. Earlier layers get no
    gradient, or one of the losses is missing from the total; nothing raises.

    ## Example
    ```python
    def total_loss(x, y, z):
        loss = F.mse_loss(x, y)
        loss = 0.1 * F.l1_loss(x, z)
        return loss
    ```
    Use instead:
    ```python
    def total_loss(x, y, z):
        loss = F.mse_loss(x, y)
        loss += 0.1 * F.l1_loss(x, z)
        return loss
    ```

    ## Fix safety
    No fix: the source does not say which of the two results is intended.
    """

    code, name, since = "DG757", "result-overwritten", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

                def forward(self, x):
                    out = torch.zeros(4)
                    out = self.a(x)
                    if x.sum() > 0:
                        out = self.b(x)
                    out = self.b(out)
                    return out
            """
        ),
        Valid("def f(model: nn.Linear, x):\n    out = model(x)  # warm up\n    out = model(x)\n    return out"),
        Valid("def f(x, y):\n    loss = F.mse_loss(x, y)\n    loss = loss + F.l1_loss(x, y)\n    return loss"),
        Valid(
            "def f(x, y):\n    loss = F.mse_loss(x, y)\n    print(f'{loss}')\n    loss = F.l1_loss(x, y)\n"
            "    return loss"
        ),
    ]
    INVALID = [
        Invalid(
            """
            class Block(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.conv1 = nn.Conv2d(4, 4, 3, padding=1)
                    self.conv2 = nn.Conv2d(4, 4, 3, padding=1)

                def forward(self, x):
                    out = torch.relu(self.conv1(x))
                    out = self.conv2(x)
                    return out + x
            """,
            at=(8, 8, 8, 39),
        ),
        Invalid(
            "def f(x, y, mask):\n    loss = F.mse_loss(x, y)\n    loss = 0.1 * F.l1_loss(x, mask)\n    return loss"
        ),
    ]

    def visit_assign(self, node: ast.Assign, ctx: Context) -> Iterator[Finding]:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as value) if not name.startswith("_"):
                pass
            case _:
                return
        if not _is_wanted(value, ctx):
            return
        block = block_of(ctx, node)
        for later in block[block.index(node) + 1 :]:
            if any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in walk(later)):
                return
            if not isinstance(later, (ast.Assign, ast.Expr, ast.AugAssign, ast.AnnAssign)):
                return
            if isinstance(later, ast.Assign) and name in bound_names(later):
                if _replaces(later, name, ctx):
                    message = f"{name} is overwritten before it is used"
                    yield ctx.finding(self, node, message, related=[("overwritten here", later)])
                return


def _is_wanted(value: ast.Call, ctx: Context) -> bool:
    """Say whether a call is of torch's losses or, in a module, uses one of its layers."""
    tensor = ctx.tensor(value)
    if tensor is not None and tensor.origin is not None and tensor.origin.operation in LOSSES:
        return True
    if module_around(value, ctx) is None or (tensor is not None and tensor.made_by(*FACTORIES)):
        return False
    return any(isinstance(n, ast.Call) and _is_own_layer(n.func, ctx) for n in walk(value))


def _is_own_layer(function: ast.expr, ctx: Context) -> bool:
    value = ctx.value(function)
    match function:
        case ast.Attribute(value=ast.Name(id="self")):
            return isinstance(value, Object) and value.is_module
        case _:
            return False


def _replaces(later: ast.Assign, name: str, ctx: Context) -> bool:
    """Say whether an assignment gives the name another tensor."""
    match later:
        case ast.Assign(targets=[ast.Name(id=target)], value=value):
            return target == name and (isinstance(ctx.value(value), Tensor) or isinstance(value, ast.Call))
        case _:
            return False
