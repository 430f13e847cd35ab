"""Rule DG759: an attention mask that softmax undoes, or that is applied when softmax is over."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import as_operand
from drygrad.static.facts.values import Constant, Origin, Tensor, TorchCall
from drygrad.static.rules.loss.origins import maker
from drygrad.static.syntax import called, last_assignment
from drygrad.static.tree import walk

_MASK = re.compile(r"(^|_)masks?(_|$)", re.I)
_SCORES = frozenset("matmul bmm mm baddbmm einsum div mul linear sub masked_fill".split())
_CONVERTS = frozenset("float to type_as int long half unsqueeze getitem expand view".split())
_BOOLEAN = frozenset("tril triu eq ne lt le gt ge bool logical_not".split())
_SMALL, _HUGE = 1.0, -1e3


class MaskMisapplied(Rule):
    """
    ## What it does
    Finds scores that are multiplied by a mask, or filled with 0 or a small number such as `1e-9`, before `softmax`; and
    probabilities filled with minus infinity after it.

    ## Why is this bad?
    `softmax` exponentiates, and the exponential of 0 is 1: masked positions get the same weight as any score of 0.
    Padding takes part in attention, or the future is visible, and nothing raises. Fill masked scores with minus
    infinity (or -1e9, not 1e-9) before the softmax. After it, minus infinity makes the output infinite or NaN.

    ## Example
    ```python
    def attend(q, k, v, mask):
        scores = q @ k.transpose(-2, -1)
        scores = scores * mask
        return scores.softmax(dim=-1) @ v
    ```
    Use instead:
    ```python
    def attend(q, k, v, mask):
        scores = q @ k.transpose(-2, -1)
        scores = scores.masked_fill(mask == 0, float("-inf"))
        return scores.softmax(dim=-1) @ v
    ```

    ## Fix safety
    Unsafe: it changes what the model computes.
    """

    code, name, since = "DG759", "mask-misapplied", "0.1"
    severity = "warning"
    calls = frozenset({"softmax", "log_softmax", "masked_fill"})
    VALID = [
        Valid("def f(q, k, mask):\n    s = (q @ k).masked_fill(mask == 0, float('-inf'))\n    return s.softmax(-1)"),
        Valid("def f(q, k, mask):\n    s = (q @ k) * mask + (1 - mask) * -1e9\n    return s.softmax(-1)"),
        Valid("def f(q, k, scale):\n    return F.softmax((q @ k) * scale, dim=-1)"),
        Valid("def f(q, k, mask):\n    p = (q @ k).softmax(-1)\n    return p.masked_fill(mask, 0.0), p * mask"),
        Valid("def f(q, k, mask):\n    return (q @ k).masked_fill(mask, 0).relu()"),
    ]
    INVALID = [
        Invalid(
            """
            def attend(q, k, v, mask):
                scores = q @ k.transpose(-2, -1) / q.size(-1) ** 0.5
                scores = scores * mask.unsqueeze(1)
                return torch.softmax(scores, dim=-1) @ v
            """,
            """
            def attend(q, k, v, mask):
                scores = q @ k.transpose(-2, -1) / q.size(-1) ** 0.5
                scores = scores.masked_fill(mask.unsqueeze(1) == 0, float("-inf"))
                return torch.softmax(scores, dim=-1) @ v
            """,
            at=(3, 13, 3, 39),
        ),
        Invalid(
            "def f(q, k, mask):\n    s = torch.matmul(q, k)\n    s = s.masked_fill(mask == 0, 1e-9)\n"
            "    return F.softmax(s, dim=-1)",
            'def f(q, k, mask):\n    s = torch.matmul(q, k)\n    s = s.masked_fill(mask == 0, float("-inf"))\n'
            "    return F.softmax(s, dim=-1)",
        ),
        Invalid(
            "def f(q, k, v, mask):\n    w = torch.softmax(q @ k, dim=-1)\n    w = w.masked_fill(mask == 0, -1e9)\n"
            "    return w @ v",
            at=(3, 8, 3, 38),
        ),
        Invalid(
            "def f(q: torch.Tensor, k, t):\n    h = torch.ones(t, t, device=q.device).tril()\n"
            "    s = q @ k * h\n    return s.softmax(-1)",
            "def f(q: torch.Tensor, k, t):\n    h = torch.ones(t, t, device=q.device).tril()\n"
            '    s = (q @ k).masked_fill(h == 0, float("-inf"))\n'
            "    return s.softmax(-1)",
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        if call is None or not call.operands:
            return
        given = ctx.tensor(call.operands[0])
        if call.operation == "masked_fill":
            yield from self._filled_late(call, given, ctx)
        elif given is not None and given.made_by("masked_fill"):
            yield from self._filled_little(node, given, ctx)
        else:
            yield from self._multiplied(node, call.operands[0], ctx)

    def _filled_late(self, call: TorchCall, given: Tensor | None, ctx: Context) -> Iterator[Finding]:
        made, value = maker(given), _filling(call)
        if made is None or made.operation != "softmax" or value is None or value > _HUGE or _is_softmaxed(call, ctx):
            return
        message = f"{value:g} is filled in after the softmax, where the values are weights and no longer scores"
        yield ctx.finding(self, call.node, message, related=[("softmax is applied here", made.node)])

    def _multiplied(self, softmax: ast.Call, given: ast.expr, ctx: Context) -> Iterator[Finding]:
        product = _written(given, softmax, ctx)
        if not isinstance(product, ast.BinOp) or not isinstance(product.op, ast.Mult):
            return
        for scores, mask in ((product.left, product.right), (product.right, product.left)):
            if _is_mask(mask, ctx) and not _is_mask(scores, ctx) and _are_scores(scores, product, ctx):
                text = f'{as_operand(ctx, scores)}.masked_fill({ctx.source_of(mask)} == 0, float("-inf"))'
                fix = ctx.fix("Fill with `-inf` before the softmax", ctx.replace(product, text))
                message = "multiplying scores by the mask does not hide them; a score of 0 still gets the weight exp(0)"
                related = [("softmax is applied here", softmax)]
                yield ctx.finding(self, product, message, related=related, fixes=[fix])
                return

    def _filled_little(self, softmax: ast.Call, given: Tensor, ctx: Context) -> Iterator[Finding]:
        call = given.origin.call if given.origin is not None else None
        value = _filling(call) if call is not None else None
        if call is None or value is None or abs(value) > _SMALL:
            return
        message = f"a score of {value:g} is not hidden by softmax; use -inf or -1e9"
        related = [("softmax is applied here", softmax)]
        yield ctx.finding(self, call.node, message, related=related, fixes=[_filled_with_infinity(call, ctx)])


def _written(given: ast.expr, at: ast.AST, ctx: Context) -> ast.expr | None:
    """Return an expression, or what the name that it is was last assigned."""
    return last_assignment(ctx, given.id, ctx.statement(at)) if isinstance(given, ast.Name) else given


def _are_scores(node: ast.expr, at: ast.AST, ctx: Context) -> bool:
    """Say whether a factor was made by a product of matrices or a layer."""
    tensor = ctx.tensor(node)
    if tensor is not None and tensor.origin is not None:
        return tensor.origin.operation in _SCORES
    written = _written(node, at, ctx)
    return written is not None and any(_multiplies_matrices(part) for part in walk(written))


def _multiplies_matrices(node: ast.AST) -> bool:
    match node:
        case ast.BinOp(op=ast.MatMult()):
            return True
        case ast.Call():
            return called(node) in ("matmul", "bmm", "einsum", "baddbmm")
        case _:
            return False


def _filling(call: TorchCall) -> float | None:
    """Return the number that a call fills in."""
    given = call.keywords.get("value") or (call.operands[2] if len(call.operands) > 2 else None)
    match given:
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str(text))]):
            return float(text) if text in ("-inf", "inf") else None
        case _:
            value = call.keyword_values.get("value") or (call.values[2] if len(call.values) > 2 else None)
    number = value.value if isinstance(value, Constant) else None
    return float(number) if isinstance(number, (int, float)) and not isinstance(number, bool) else None


def _filled_with_infinity(call: TorchCall, ctx: Context) -> Fix | None:
    given = call.keywords.get("value") or call.operands[2]
    return ctx.fix("Fill with `-inf`", ctx.replace(given, 'float("-inf")'))


def _is_softmaxed(call: TorchCall, ctx: Context) -> bool:
    """Say whether a second softmax takes what was filled."""
    return any(
        other.operation in ("softmax", "log_softmax")
        and (tensor := ctx.tensor(other.operands[0] if other.operands else None)) is not None
        and tensor.origin is not None
        and tensor.origin.node is call.node
        for other in ctx.facts.recording.calls.values()
    )


def _is_mask(node: ast.expr, ctx: Context) -> bool:
    """Say whether a factor is 0 where something is hidden: it is called a mask, or was made of a comparison."""
    tensor = ctx.tensor(node)
    origin: Origin | None = tensor.origin if tensor is not None else None
    for _ in range(4):
        if origin is None or origin.operation not in _CONVERTS:
            break
        inner = origin.operands[0] if origin.operands else None
        origin = inner.origin if isinstance(inner, Tensor) else None
    if origin is not None and origin.operation in _BOOLEAN:
        return True
    names = (
        n.id if isinstance(n, ast.Name) else n.attr for n in walk(node) if isinstance(n, (ast.Name, ast.Attribute))
    )
    return any(_MASK.search(name) for name in names) and not any(isinstance(n, (ast.Add, ast.Sub)) for n in walk(node))
