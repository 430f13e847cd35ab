"""Rule DG412: the gradient of an arccosine at its ends."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import TorchCall
from drygrad.static.rules.numerics.guards import ends_gradient, is_called_in_training, is_guarded, records_gradient
from drygrad.static.rules.numerics.singular import arc_at

_MARGIN = "1e-7"


class ArccosAtOne(Rule):
    """
    ## What it does
    Finds `acos` and `asin` of a tensor clamped to exactly -1 and 1, in what a model or a loss computes.

    ## Why is this bad?
    The derivatives of `acos` and `asin` at -1 and 1 are infinite, and `clamp` passes the gradient of a value exactly at
    its bound. If two unit vectors or rotations are equal, their cosine is 1: the angle is a harmless 0, but backward
    multiplies infinity by 0. One such element makes every weight NaN in the next step. Use bounds slightly inside, or
    `atan2` of sine and cosine.

    ## Example
    ```python
    angle = torch.acos(cosine.clamp(-1.0, 1.0))
    ```
    Use instead:
    ```python
    angle = torch.acos(cosine.clamp(-1.0 + 1e-7, 1.0 - 1e-7))
    ```

    ## Fix safety
    Unsafe: angles close to 0 change slightly, and their gradient becomes 0.
    """

    code, name, since = "DG412", "arccos-at-one", "0.1"
    severity = "info"
    calls = frozenset({"acos", "asin", "arccos", "arcsin"})
    VALID = [
        Valid("def angle_loss(c: torch.Tensor):\n    return torch.acos(c.clamp(-1 + 1e-6, 1 - 1e-6)).mean()"),
        Valid("@torch.no_grad()\ndef angle_loss(c: torch.Tensor):\n    return torch.acos(c.clamp(-1, 1)).mean()"),
        Valid("def report(c: torch.Tensor):\n    return torch.acos(c.clamp(-1, 1)).mean()"),
        Valid("def angle_loss(c: torch.Tensor):\n    return torch.acos(c.detach().clamp(-1, 1)).mean()"),
        Valid("def angle_loss(c: torch.Tensor):\n    a = c.clamp(-1, 1).acos()\n    return a.where(c < 1, 0.0).mean()"),
        Valid("def angle_loss(c: torch.Tensor, eps):\n    return c.clamp(-1 + eps, 1 - eps).acos().mean()"),
    ]
    INVALID = [
        Invalid(
            "def angle_loss(c: torch.Tensor):\n    return torch.acos(c.clamp(-1.0, 1.0)).mean()",
            "def angle_loss(c: torch.Tensor):\n    return torch.acos(c.clamp(-1.0 + 1e-7, 1.0 - 1e-7)).mean()",
            at=(2, 11, 2, 41),
        ),
        Invalid(
            """
            def rotation_angle(a: torch.Tensor, b: torch.Tensor):
                cosine = ((a * b).sum(dim=(-2, -1)) - 1) / 2
                return torch.clamp(cosine, min=-1, max=1).acos()

            def train_step(model, optimizer, frames, wanted):
                loss = rotation_angle(model(frames), wanted).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            def rotation_angle(a: torch.Tensor, b: torch.Tensor):
                cosine = ((a * b).sum(dim=(-2, -1)) - 1) / 2
                return torch.clamp(cosine, min=-1 + 1e-7, max=1 - 1e-7).acos()

            def train_step(model, optimizer, frames, wanted):
                loss = rotation_angle(model(frames), wanted).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        found = arc_at(node, ctx)
        if found is None or found.origin is None:
            return
        given, tensor, clamp = found.argument, found.tensor, found.origin.call
        if found.origin.operation != "clamp" and ends_gradient(found.value):
            return
        recorded = records_gradient(node, ctx, tensor)
        if recorded == "no" and (
            (tensor is not None and tensor.requires_grad is False) or not is_called_in_training(node, ctx)
        ):
            return
        if is_guarded(node, given, ctx):
            return
        yield ctx.finding(
            self,
            node,
            f"`{ctx.source_of(given)}` may be exactly 1, where the gradient is infinite; it becomes NaN and spreads "
            "to every weight",
            fixes=[_fix(clamp, ctx)] if clamp is not None and clamp.operation == "clamp" else [],
        )


def _fix(clamp: TorchCall, ctx: Context) -> Fix | None:
    low, high = clamp.operand("min"), clamp.operand("max")
    if low is None or high is None:
        return None
    edits = [ctx.insert_after(low, f" + {_MARGIN}"), ctx.insert_after(high, f" - {_MARGIN}")]
    return ctx.fix("Clamp slightly inside the bounds", *edits)
