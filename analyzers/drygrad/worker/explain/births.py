"""Why an operation made NaN or infinity out of finite values: code and sentence, with the values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple, Optional

import torch

from drygrad.worker import graphs
from drygrad.worker.lines import Lines
from drygrad.worker.reading import dtype_text, extremes, quietly
from drygrad.worker.spelling import operands, spelled
from drygrad.worker.watch import Op

OTHER, HALF = "DG410", "DG411"


class Reason(NamedTuple):
    """The code of a rule, and a clause that says what happened."""

    code: str
    sentence: str


def places(mask: torch.Tensor) -> str:
    """Say at how many places a condition holds: ``at 2 of 4 places``; nothing for a single number."""
    with quietly():
        count, total = int(mask.sum()), mask.numel()
    return "" if total == 1 else f" at {count} of {total} positions"


def kind_of(tensor: torch.Tensor) -> str:
    """Say what a tensor that is not finite is: ``NaN`` or ``infinite``."""
    with quietly():
        return "NaN" if bool(torch.isnan(tensor).any()) else "infinite"


def forward_reason(op: Op, result: torch.Tensor, lines: Lines, name: Callable[[Any], str | None]) -> Reason:
    """Explain a birth in the forward pass; ``name`` knows how the user calls a tensor there."""
    bare = op.name.rpartition("::")[2].rstrip("_")
    subject = _subject(op, bare, lines, name)
    explained = _EXPLAINED[bare](op, subject) if bare in _EXPLAINED else None
    if explained is not None:
        return explained
    if result.dtype is torch.float16 and kind_of(result) == "infinite":
        return _overflow(op, bare, lines)
    with quietly():
        where = places(~torch.isfinite(result))
    made = f"{spelled(lines, op.instruction, op.name)} is {kind_of(result)}{where}"
    return Reason(OTHER, f"{made}, {_operands(op)}")


def came_in(op: Op, name: Callable[[Any], str | None]) -> Reason:
    """Explain NaN that nothing has computed: an operand of the first operation to meet it held it from the start."""
    for tensor in op.tensors():
        if tensor.is_floating_point() and kind_of(tensor) == "NaN":
            with quietly():
                where = places(torch.isnan(tensor))
            return Reason(OTHER, f"`{name(tensor) or 'an operand'}` is NaN{where} before anything uses it")
    return Reason(OTHER, "NaN came from outside")


def backward_reason(op: Op, result: torch.Tensor, lines: Lines, masked: bool) -> Reason:
    """Explain a birth in the backward pass; ``masked`` tells that a ``where`` has picked other values than these."""
    operation = graphs.operation(op.node)
    with quietly():
        where = places(~torch.isfinite(result))
    code, why = _SLOPES.get(operation, (OTHER, ""))
    if result.dtype is torch.float16 and kind_of(result) == "infinite" and not why:
        code, why = HALF, ": it exceeds 65504, the maximum of float16"
    made = f"the gradient of {spelled(lines, op.instruction, operation)} is {kind_of(result)}{where}{why}"
    if masked and code == "DG407":  # the root itself is a harmless 0: there was no value to hide
        return Reason(code, made + "; a mask applied later does not stop it (0 * inf is NaN)")
    if masked:
        return Reason("DG406", made + "; the later `where` hides the value, not the gradient (0 * inf)")
    return Reason(code, made)


_SLOPES = {
    "sqrt": ("DG407", ": the gradient of sqrt is infinite at 0"),
    "pow": ("DG407", ": the gradient of a power below 1 is infinite at 0"),
    "log": ("DG404", ": its input is 0 there"),
    "log2": ("DG404", ": its input is 0 there"),
    "log10": ("DG404", ": its input is 0 there"),
    "div": ("DG402", ": the denominator is 0 there"),
    "reciprocal": ("DG402", ": the denominator is 0 there"),
    "rsqrt": ("DG402", ": the denominator is 0 there"),
    "acos": (OTHER, ": its gradient is infinite at -1 and 1"),
    "asin": (OTHER, ": its gradient is infinite at -1 and 1"),
    "atanh": (OTHER, ": its gradient is infinite at -1 and 1"),
    "acosh": (OTHER, ": its gradient is infinite at 1"),
    "std": (OTHER, ": the standard deviation of a single value"),
    "var": (OTHER, ": the variance of a single value"),
}

Explainer = Callable[[Op, str], Optional[Reason]]


def _division(op: Op, denominator: str) -> Reason | None:
    value: Any = list(op.args)[-1]
    if not isinstance(value, torch.Tensor):
        return Reason("DG401", f"division by zero: {denominator} is 0") if value == 0 else None
    with quietly():
        zero = value == 0
        if not bool(zero.any()):
            return None
        everywhere = bool(zero.all()) and zero.numel() > 1 and not _measures(denominator)
    code = "DG401" if everywhere else "DG402"
    return Reason(code, f"division by zero: the denominator{denominator} is 0{places(zero)}")


def _measures(text: str) -> bool:
    return any(word in text for word in ("norm", "std", "sum", "var", "count"))


def _logarithm(op: Op, subject: str) -> Reason | None:
    value = op.args[0]
    with quietly():
        zero, negative = value == 0, value < 0
    if bool(negative.any()):
        low = extremes(value)
        least = f" (minimum {low[0]:.4g})" if low else ""
        return Reason(OTHER, f"logarithm of a negative number:{subject} is negative{places(negative)}{least}")
    if not bool(zero.any()):
        return None
    softmax = value.grad_fn is not None and graphs.operation(value.grad_fn) == "softmax"
    return Reason(
        "DG403" if softmax or "softmax" in subject else "DG404", f"logarithm of 0:{subject} is 0{places(zero)}"
    )


def _root(op: Op, subject: str) -> Reason | None:
    value = op.args[0]
    with quietly():
        negative, zero = value < 0, value == 0
    if bool(negative.any()):
        return Reason(OTHER, f"square root of a negative number:{subject} is negative{places(negative)}")
    return (
        Reason("DG402", f"division by zero: the square root of{subject} is 0{places(zero)}")
        if bool(zero.any())
        else None
    )


def _power(op: Op, subject: str) -> Reason | None:
    base, exponent = op.args[0], op.args[1]
    if not isinstance(base, torch.Tensor):
        return None
    with quietly():
        zero, negative = base == 0, base < 0
        falling = bool((torch.as_tensor(exponent) < 0).any())
    if falling and bool(zero.any()):
        return Reason("DG402", f"division by zero: a negative power of{subject}, which is 0{places(zero)}")
    if bool(negative.any()):
        return Reason(OTHER, f"fractional power of a negative number:{subject} is negative{places(negative)}")
    return None


def _exponential(op: Op, subject: str) -> Reason | None:
    value = op.args[0]
    both = extremes(value)
    if both is None or not both[1] > 0:
        return None
    limit = math.log(torch.finfo(value.dtype).max)
    code = HALF if value.dtype is torch.float16 else OTHER
    return Reason(
        code,
        f"exp overflows:{subject} reaches {both[1]:.4g}, but {dtype_text(value.dtype)} overflows above {limit:.1f}",
    )


def _inverse(op: Op, subject: str) -> Reason | None:
    both = extremes(op.args[0])
    bare = op.name.rpartition("::")[2].rstrip("_")
    if both is None:
        return None
    low, high = both
    return Reason(OTHER, f"{bare} of a value outside its domain:{subject} ranges from {low:.4g} to {high:.4g}")


def _softmax(op: Op, subject: str) -> Reason | None:
    value, dim = op.args[0], op.args[1]
    with quietly():
        rows = (value == -math.inf).all(dim)
    if not bool(rows.any()):
        return None
    count, total = int(rows.sum()), rows.numel()
    return Reason(OTHER, f"softmax of fully masked rows: {count} of {total} rows of{subject} are all -inf")


def _deviation(op: Op, subject: str) -> Reason | None:
    value = op.args[0]
    dims = op.args[1] if len(op.args) > 1 and op.args[1] is not None else range(value.dim())
    if math.prod(value.shape[dim] for dim in dims) > 1:
        return None
    return Reason(OTHER, f"the standard deviation of a single value is NaN:{subject} of shape {list(value.shape)}")


def _likelihood(op: Op, subject: str) -> Reason | None:
    target, ignored = op.argument("target"), op.argument("ignore_index")
    with quietly():
        if not bool((target == ignored).all()):
            return None
    return Reason(OTHER, f"the mean of no losses is NaN: all {target.numel()} targets are ignore_index ({ignored})")


def _cast(op: Op, subject: str) -> Reason | None:
    both = extremes(op.args[0])
    if both is None or op.argument("dtype") is not torch.float16:
        return None
    greatest = max(abs(both[0]), abs(both[1]))
    return Reason(HALF, f"overflow:{subject} reaches {greatest:.6g}, and the maximum of float16 is 65504")


_EXPLAINED: dict[str, Explainer] = {
    **dict.fromkeys(("div", "reciprocal", "addcdiv", "true_divide"), _division),
    **dict.fromkeys(("log", "log2", "log10"), _logarithm),
    **dict.fromkeys(("sqrt", "rsqrt"), _root),
    **dict.fromkeys(("exp", "exp2", "expm1", "sinh", "cosh"), _exponential),
    **dict.fromkeys(("acos", "asin", "atanh", "acosh", "erfinv", "logit"), _inverse),
    **dict.fromkeys(("_softmax", "_log_softmax", "_safe_softmax"), _softmax),
    **dict.fromkeys(("std", "var", "var_mean", "std_mean"), _deviation),
    **dict.fromkeys(("nll_loss_forward", "nll_loss2d_forward"), _likelihood),
    "pow": _power,
    "_to_copy": _cast,
}


def _overflow(op: Op, bare: str, lines: Lines) -> Reason:
    return Reason(
        HALF,
        f"overflow: the result of {spelled(lines, op.instruction, bare)} exceeds the maximum of float16, 65504",
    )


def _operands(op: Op) -> str:
    """Say what the operands were."""
    tensors = [t for t in op.tensors() if t.is_floating_point()]
    if any(t.numel() == 0 for t in tensors):
        return "because the operand is empty"
    if op.name == "aten::mul" and any(isinstance(value, float) and math.isinf(value) for value in op.args):
        return "because 0 * inf is NaN"
    both = [found for found in map(extremes, tensors) if found]
    greatest = max((max(abs(low), abs(high)) for low, high in both), default=0.0)
    return "from infinite operands" if math.isinf(greatest) else f"from finite operands of up to {greatest:.4g}"


def _subject(op: Op, bare: str, lines: Lines, name: Callable[[Any], str | None]) -> str:
    """Return the user's words for the operand that decides, in backquotes behind a space; else nothing useful."""
    tensors = [value for value in op.args if isinstance(value, torch.Tensor)]
    if not tensors:
        return ""
    decisive = tensors[-1] if bare in ("div", "true_divide") else tensors[0]
    named = name(decisive) or _written(op, bare, lines)
    return f" `{named}`" if named else "" if bare == "div" else " its input"


def _written(op: Op, bare: str, lines: Lines) -> str | None:
    """Return the operand's text where the text spells this very operation."""
    text = spelled(lines, op.instruction, op.name)
    parts = operands(lines, op.instruction)
    if bare == "_to_copy" and parts and re.search(r"\.(half|to|type)\([^()]*\)`", text):
        return parts[0]
    if not parts or not (f"{bare}(" in text or (bare == "div" and "/" in text)):
        return None
    return parts[-2 if bare == "pow" and len(parts) > 1 else -1]
