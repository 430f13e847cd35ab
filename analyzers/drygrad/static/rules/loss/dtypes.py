"""The dtype that a loss asks its target to have: one account, which DG309 and DG310 explain."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Rule
from drygrad.static.context import Context
from drygrad.static.facts.operations import CASTS
from drygrad.static.facts.values import FLOATING, INTEGERS, Tensor, TorchCall
from drygrad.static.rules.loss.activations import rename
from drygrad.static.rules.loss.origins import maker
from drygrad.static.rules.loss.pairs import with_suffix

OF_CLASSES = frozenset({"cross_entropy", "nll_loss"})
OF_LABELS = frozenset({"binary_cross_entropy", "binary_cross_entropy_with_logits"})
_WHOLE = INTEGERS | {"bool"}
_INDICES = frozenset({"int64", "uint8"})


def told(rule: Rule, node: ast.Call, ctx: Context) -> Iterator[Finding]:
    """Yield the finding of a loss that refuses its target's dtype, under the code of the rule that explains it."""
    call = ctx.call(node)
    expression = call.operand("target") if call is not None else None
    target, given = ctx.tensor(expression), ctx.tensor(call.operand("input") if call is not None else None)
    if call is None or expression is None or target is None:
        return
    made = maker(target)
    if call.operation in OF_LABELS:
        refused, method = target.dtype in _WHOLE, _method_of(given)
        message = f"{call.operation} requires float targets; this one is {target.dtype}, which raises"
    elif made is not None and made.operation == "one_hot" and target.dtype in _WHOLE and _may_have_rank(given, 2):
        takes_probabilities = call.operation == "cross_entropy"
        refused, method = True, "float" if takes_probabilities else None
        message = (
            f"{call.operation} raises for a one-hot target that is {target.dtype}; probabilities must be float"
            if takes_probabilities
            else f"{call.operation} raises: it takes class indices, and this target is one-hot"
        )
    else:
        refused, method = _refuses_indices(call, target, given), "long"
        message = f"{call.operation} raises for class indices that are not int64; here they are {target.dtype}"
    if refused:
        yield ctx.finding(rule, expression, message, fixes=[cast(ctx, expression, method) if method else None])


def cast(ctx: Context, expression: ast.expr, method: str) -> Fix | None:
    """Cast a tensor with a method, in the place of the cast that it has."""
    match expression:
        case ast.Call(func=ast.Attribute(attr=attr), args=[], keywords=[]) if attr in CASTS:
            return ctx.fix(f"Use `.{method}()` instead of `.{attr}()`", rename(ctx, expression, method))
        case _:
            return with_suffix(ctx, expression, f".{method}()")


def _method_of(given: Tensor | None) -> str:
    """Return the method that casts to the dtype of a loss's input."""
    dtype = given.dtype if given is not None else None
    return next((method for method in ("double", "half", "bfloat16") if CASTS[method] == dtype), "float")


def _may_have_rank(given: Tensor | None, rank: int) -> bool:
    return given is None or given.shape is None or len(given.shape) <= rank


def _refuses_indices(call: TorchCall, target: Tensor, given: Tensor | None) -> bool:
    """Say whether a target holds class indices for certain, and of a dtype that raises."""
    if target.dtype not in FLOATING:
        return target.dtype in _WHOLE - _INDICES
    shapes = (given.shape, target.shape) if given is not None else (None, None)
    is_shorter = shapes[0] is not None and shapes[1] is not None and len(shapes[1]) == len(shapes[0]) - 1
    return is_shorter or call.operation == "nll_loss"
