"""Rule DG412: the gradient of an arccosine at its ends."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import as_operand
from drygrad.static.facts.ranges import range_of
from drygrad.static.facts.values import Constant, Number, Quantity, Tensor, TorchCall, Value
from drygrad.static.rules.loss.origins import RELAYOUTS
from drygrad.static.rules.numerics.guards import ends_gradient, is_called_in_training, is_guarded, records_gradient
from drygrad.static.rules.numerics.singular import ARCS, arc_at

_MARGIN = "1e-7"
_CONTRACTIONS = frozenset("sum dot vdot vecdot inner matmul mm mv bmm einsum tensordot trace".split())
"""What sums products: of unit vectors a cosine, of a rotation its trace, neither of them rounded to at most 1."""
_DEPTH = 6


class ArccosAtOne(Rule):
    """
    ## What it does
    Finds, in what a model or a loss computes, `acos` and `asin` of a tensor clamped to exactly -1 and 1, or of a
    computed cosine that nothing keeps within -1 and 1: a cosine similarity, the product of normalized vectors, the
    trace of a rotation.

    ## Why is this bad?
    The derivatives of `acos` and `asin` at -1 and 1 are infinite, and `clamp` passes the gradient of a value exactly at
    its bound. If two unit vectors or rotations are equal, their cosine is 1: the angle is a harmless 0, but backward
    multiplies infinity by 0. One such element makes every weight NaN in the next step. Without `clamp`, rounding also
    gives cosines such as 1.0000001, whose angle itself is NaN. Use bounds slightly inside, or `atan2` of sine and
    cosine.

    ## Example
    ```python
    def angle_loss(cosine: torch.Tensor):
        return torch.acos(cosine.clamp(-1.0, 1.0)).mean()
    ```
    Use instead:
    ```python
    def angle_loss(cosine: torch.Tensor):
        return torch.acos(cosine.clamp(-1.0 + 1e-7, 1.0 - 1e-7)).mean()
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
        Valid("def angle_loss(c: torch.Tensor):\n    return torch.acos(c.tanh() / 2).mean()"),
        Valid("def angle_loss(a: torch.Tensor, b: torch.Tensor):\n    return ((a * b).sum(-1) * 0.9999).acos().mean()"),
        Valid("def report(a: torch.Tensor, b: torch.Tensor):\n    return torch.acos((a * b).sum(-1)).mean()"),
        Valid(
            "def angle_loss(a: torch.Tensor, b: torch.Tensor):\n    c = (a * b).sum(-1)\n"
            "    return torch.acos(c).nan_to_num(0.0).mean() if c.max() < 1 else c.mean()"
        ),
        Valid("def angle_loss(c: torch.Tensor, eps):\n    return c.clamp(-1 + eps, 1 - eps).acos().mean()"),
    ]
    INVALID = [
        Invalid(
            """
            class Angle(nn.Module):
                def forward(self, a: torch.Tensor, b: torch.Tensor):
                    return torch.acos(F.cosine_similarity(a, b, dim=-1)).mean()
            """,
            """
            class Angle(nn.Module):
                def forward(self, a: torch.Tensor, b: torch.Tensor):
                    return torch.acos(F.cosine_similarity(a, b, dim=-1).clamp(-1 + 1e-7, 1 - 1e-7)).mean()
            """,
            at=(3, 15, 3, 60),
        ),
        Invalid(
            """
            def turned(a: torch.Tensor, b: torch.Tensor):
                m = torch.bmm(a, b.mT)
                return ((m.diagonal(dim1=1, dim2=2).sum(-1) - 1) / 2).arccos()

            def rotation_loss(a: torch.Tensor, b: torch.Tensor):
                return turned(a, b).mean()
            """,
            """
            def turned(a: torch.Tensor, b: torch.Tensor):
                m = torch.bmm(a, b.mT)
                return (((m.diagonal(dim1=1, dim2=2).sum(-1) - 1) / 2).clamp(-1 + 1e-7, 1 - 1e-7)).arccos()

            def rotation_loss(a: torch.Tensor, b: torch.Tensor):
                return turned(a, b).mean()
            """,
        ),
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
        if found is None or found.origin is None or _is_cosine(found.value):
            yield from self._unbounded(node, ctx)
            return
        given, tensor, clamp = found.argument, found.tensor, found.origin.call
        if found.origin.operation != "clamp" and ends_gradient(found.value):
            return
        if _spoils_nothing(node, given, tensor, ctx):
            return
        yield ctx.finding(
            self,
            node,
            f"`{ctx.source_of(given)}` may be exactly 1, where the gradient is infinite; it becomes NaN and spreads "
            "to every weight",
            fixes=[_fix(clamp, ctx)] if clamp is not None and clamp.operation == "clamp" else [],
        )

    def _unbounded(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        """Find the arc of a cosine that nothing keeps from being rounded beyond 1."""
        call = ctx.call(node)
        given = call.operand("input") if call is not None and call.operation in ARCS else None
        value = ctx.quantity(given)
        if given is None or not _is_cosine(value):
            return
        if _spoils_nothing(node, given, value if isinstance(value, Tensor) else None, ctx):
            return
        bounds = f".clamp(-1 + {_MARGIN}, 1 - {_MARGIN})"
        yield ctx.finding(
            self,
            node,
            f"`{ctx.source_of(given)}` may be rounded to 1 or beyond; the angle or its gradient is then NaN and "
            "spreads to every weight",
            fixes=[ctx.fix("Clamp slightly inside the bounds", ctx.replace(given, as_operand(ctx, given) + bounds))],
        )


def _spoils_nothing(node: ast.Call, given: ast.expr, tensor: Tensor | None, ctx: Context) -> bool:
    """Say whether no gradient passes, as far as the file shows, or the code minds the value."""
    if records_gradient(node, ctx, tensor) == "no" and (
        (tensor is not None and tensor.requires_grad is False) or not is_called_in_training(node, ctx)
    ):
        return True
    return is_guarded(node, given, ctx)


def _is_cosine(value: Value, depth: int = _DEPTH) -> bool:
    """Say whether a value is a cosine similarity, or a sum of products that was at most shifted and scaled."""
    origin = value.origin if isinstance(value, (Tensor, Quantity)) else None
    known = range_of(value)
    if origin is None or not depth or (known is not None and known.low >= -1 and known.high <= 1):
        return origin is not None and origin.operation == "cosine_similarity"
    if origin.operation in _CONTRACTIONS or origin.operation == "cosine_similarity":
        return True
    first, *others = origin.operands or (value,)
    if origin.operation == "div":
        return _is_cosine(first, depth - 1)
    if origin.operation in ("add", "sub", "mul") and others and isinstance(others[0], (Constant, Number)):
        return not _shrinks(origin.operation, others[0]) and _is_cosine(first, depth - 1)
    if origin.operation == "mul" and others and isinstance(first, (Constant, Number)):
        return not _shrinks(origin.operation, first) and _is_cosine(others[0], depth - 1)
    return origin.operation in RELAYOUTS and _is_cosine(first, depth - 1)


def _shrinks(operation: str, factor: Value) -> bool:
    """Say whether a factor just below 1 keeps a cosine inside."""
    number = factor.value if isinstance(factor, Constant) else None
    return operation == "mul" and (not isinstance(number, (int, float)) or 0.9 < abs(number) < 1)


def _fix(clamp: TorchCall, ctx: Context) -> Fix | None:
    low, high = clamp.operand("min"), clamp.operand("max")
    if low is None or high is None:
        return None
    edits = [ctx.insert_after(low, f" + {_MARGIN}"), ctx.insert_after(high, f" - {_MARGIN}")]
    return ctx.fix("Clamp slightly inside the bounds", *edits)
