"""How large the values can be that an operation makes of values whose bounds are known.

Each rule is generous, for all that it has to rule out is an overflow, but true of every input within the bounds. What
may divide by zero, or take the logarithm or the root of anything, has none.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Union

from drygrad.worker.reading import at_hand

Bound = Callable[[Any], float]
"""Tells the bound of an argument: a tensor, or a number."""
Rule = Callable[[Bound, "tuple[Any, ...]", "dict[str, Any]"], Union[float, "tuple[float, ...]"]]
"""Returns a bound of all results, or one of each; infinity where there is none."""

_NONE = math.inf
_SQUARABLE = 1e15
"""The squares of such magnitudes, summed over any tensor, are no overflow in single precision."""
_EXPONENT = 80.0
"""What the exponential can take in single precision."""


def _first(of: Bound, args: Any, named: Any) -> float:
    return of(args[0])


def _curved(of: Bound, args: Any, named: Any) -> float:
    return 1.2 * of(args[0]) if of(args[1]) < _SQUARABLE else _NONE


def _constant(bound: float) -> Rule:
    return lambda of, args, named: bound if of(args[0]) < _NONE else _NONE


def _added(of: Bound, args: Any, named: Any) -> float:
    return of(args[0]) + abs(named.get("alpha", 1)) * of(args[1])


def _multiplied(of: Bound, args: Any, named: Any) -> float:
    return of(args[0]) * of(args[1])


def _divided(of: Bound, args: Any, named: Any) -> float:
    divisor = args[1]
    by_number = type(divisor) in (int, float) and divisor and not named
    return of(args[0]) / abs(divisor) if by_number else _NONE


def _powered(of: Bound, args: Any, named: Any) -> float:
    exponent = args[1]
    if type(exponent) not in (int, float) or exponent not in (1, 2, 3, 4) or isinstance(args[0], (int, float)):
        return _NONE
    return min(max(1.0, of(args[0])), 1e60) ** exponent


def _greatest(of: Bound, args: Any, named: Any) -> float:
    return max(of(args[0]), of(args[1]))


def _listed(of: Bound, args: Any, named: Any) -> float:
    return max(map(of, args[0]), default=0.0)


def _chosen(of: Bound, args: Any, named: Any) -> float:
    return max(of(args[1]), of(args[2])) if len(args) > 2 else _NONE


def _filled(of: Bound, args: Any, named: Any) -> float:
    return max(of(args[0]), of(args[-1]))


def _padded(of: Bound, args: Any, named: Any) -> float:
    return max(of(args[0]), of(args[2]) if len(args) > 2 else of(named.get("value", 0)))


def _written(of: Bound, args: Any, named: Any) -> float:
    return of(args[1])


def _made(bound: float) -> Rule:
    return lambda of, args, named: bound


def _full(of: Bound, args: Any, named: Any) -> float:
    return of(args[1] if len(args) > 1 else named.get("fill_value"))


def _clamped(of: Bound, args: Any, named: Any) -> float:
    bounds = [of(value) for value in (*args, *named.values()) if value is not None]
    return max(bounds)


def _leaky(of: Bound, args: Any, named: Any) -> float:
    slope = args[1] if len(args) > 1 else 1
    return max(1.0, of(slope)) * of(args[0])


def _leaky_backward(of: Bound, args: Any, named: Any) -> float:
    return max(1.0, of(args[2])) * of(args[0])


def _exponential(of: Bound, args: Any, named: Any) -> float:
    bound = of(args[0])
    return math.exp(bound) if bound < _EXPONENT else _NONE


def _summed(of: Bound, args: Any, named: Any) -> float:
    return args[0].numel() * of(args[0])


def _averaged(of: Bound, args: Any, named: Any) -> float:
    count = args[0].numel()
    return count * of(args[0]) if count else _NONE  # the sum comes first, and has the dtype of the result


def _product(of: Bound, args: Any, named: Any) -> float:
    return args[0].shape[-1] * of(args[0]) * of(args[1])


def _added_product(of: Bound, args: Any, named: Any) -> float:
    beta, alpha = abs(named.get("beta", 1)), abs(named.get("alpha", 1))
    return beta * of(args[0]) + alpha * args[1].shape[-1] * of(args[1]) * of(args[2])


def _convolved(of: Bound, args: Any, named: Any) -> float:
    bias = of(args[2]) if args[2] is not None else 0.0
    return args[1].numel() * of(args[0]) * of(args[1]) + bias


def _convolution_backward(of: Bound, args: Any, named: Any) -> tuple[float, ...]:
    gradient = of(args[0])
    count = args[0].numel()
    return args[2].numel() * gradient * of(args[2]), count * gradient * of(args[1]), count * gradient


def _dropped(of: Bound, args: Any, named: Any) -> float:
    p = args[1]
    if not args[2] or not 0 <= p < 1:
        return _NONE
    return of(args[0]) / (1 - p)


def _softmax(of: Bound, args: Any, named: Any) -> float:
    return 1.0 if of(args[0]) < _NONE else _NONE


def _log_softmax(of: Bound, args: Any, named: Any) -> float:
    return 2 * of(args[0]) + math.log(max(args[0].numel(), 1))


def _softmax_backward(of: Bound, args: Any, named: Any) -> float:
    return (1 + args[0].numel()) * of(args[0]) * max(1.0, of(args[1]))


def _log_softmax_backward(of: Bound, args: Any, named: Any) -> float:
    return (1 + args[0].numel()) * of(args[0]) if of(args[1]) < _NONE else _NONE


def _likelihood_backward(of: Bound, args: Any, named: Any) -> float:
    total = abs(at_hand(args[6]).item())
    return of(args[0]) * _or(of, args[3], 1.0) / min(total, 1.0) if total > 0 else _NONE


def _squared_error(of: Bound, args: Any, named: Any) -> float:
    count = max(args[0].numel(), args[1].numel())
    return count * (of(args[0]) + of(args[1])) ** 2 if args[0].numel() and args[1].numel() else _NONE


def _squared_error_backward(of: Bound, args: Any, named: Any) -> float:
    both = args[1].numel() and args[2].numel()
    return 2 * of(args[0]) * (of(args[1]) + of(args[2])) if both else _NONE


def _normalized(count: int, size: float, weight: float, bias: float, eps: float) -> tuple[float, ...]:
    """Return bounds of what a normalization makes of ``count`` values: results, means, and what they are scaled by."""
    if not eps > 0 or not size < _SQUARABLE or not count:
        return (_NONE, _NONE, _NONE)
    return math.sqrt(count) * weight + bias, size, 1 / math.sqrt(eps)


def _normalization_backward(count: int, gradient: float, weight: float, scale: float) -> tuple[float, ...]:
    return scale * gradient * weight * (2 + count), gradient * count * count, gradient * count


def _or(of: Bound, value: Any, otherwise: float) -> float:
    return otherwise if value is None else of(value)


def _layer_norm(of: Bound, args: Any, named: Any) -> tuple[float, ...]:
    x, shape, weight, bias, eps = args
    return _normalized(math.prod(shape), of(x), _or(of, weight, 1.0), _or(of, bias, 0.0), eps)


def _layer_norm_backward(of: Bound, args: Any, named: Any) -> tuple[float, ...]:
    gradient, x, _, _, scale, weight = args[:6]
    known = of(x) < _SQUARABLE
    return _normalization_backward(x.numel(), of(gradient), _or(of, weight, 1.0), of(scale) if known else _NONE)


def _batch_norm(of: Bound, args: Any, named: Any) -> tuple[float, ...]:
    x, weight, bias, _, _, training, _, eps = args
    if not training:
        return (_NONE, _NONE, _NONE)
    count = x.numel() // max(x.shape[1], 1)
    return _normalized(count, of(x), _or(of, weight, 1.0), _or(of, bias, 0.0), eps)


def _batch_norm_backward(of: Bound, args: Any, named: Any) -> tuple[float, ...]:
    gradient, x, weight, _, _, _, scale, training = args[:8]
    known = training and scale is not None and of(x) < _SQUARABLE
    return _normalization_backward(x.numel(), of(gradient), _or(of, weight, 1.0), of(scale) if known else _NONE)


def _group_norm(of: Bound, args: Any, named: Any) -> tuple[float, ...]:
    x, weight, bias, _, channels, places, groups, eps = args
    return _normalized(channels * places // groups, of(x), _or(of, weight, 1.0), _or(of, bias, 0.0), eps)


def _group_norm_backward(of: Bound, args: Any, named: Any) -> tuple[float, ...]:
    gradient, x, _, scale, weight = args[:5]
    known = of(x) < _SQUARABLE
    return _normalization_backward(x.numel(), of(gradient), _or(of, weight, 1.0), of(scale) if known else _NONE)


def _attention(of: Bound, args: Any, named: Any) -> tuple[float, ...]:
    query, key, value = args[:3]
    scores = query.shape[-1] * of(query) * of(key) * abs(named.get("scale") or 1.0)
    if named.get("attn_mask") is not None or not scores < _SQUARABLE:
        return (_NONE, _NONE)
    return of(value), scores + math.log(max(key.shape[-2], 1))


def _attention_backward(of: Bound, args: Any, named: Any) -> tuple[float, ...]:
    gradient, query, key, value = args[:4]
    scale = abs(named.get("scale") or 1.0)
    width, scores = query.shape[-1], query.shape[-1] * of(query) * of(key) * scale
    if named.get("attn_mask") is not None or not scores < _SQUARABLE:
        return (_NONE, _NONE, _NONE)
    count = max(query.shape[-2], key.shape[-2])
    of_scores = 2 * width * of(gradient) * of(value) * scale
    return count * of_scores * of(key), count * of_scores * of(query), count * of(gradient)


_OWN: dict[str, Rule] = {
    "_log_softmax": _log_softmax,
    "_log_softmax_backward_data": _log_softmax_backward,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "_softmax": _softmax,
    "_softmax_backward_data": _softmax_backward,
    "add": _added,
    "addmm": _added_product,
    "baddbmm": _added_product,
    "bmm": _product,
    "cat": _listed,
    "clamp": _clamped,
    "constant_pad_nd": _padded,
    "convolution": _convolved,
    "convolution_backward": _convolution_backward,
    "copy_": _written,
    "div": _divided,
    "embedding_dense_backward": _summed,
    "exp": _exponential,
    "fill": _written,
    "full": _full,
    "gelu_backward": _curved,
    "leaky_relu": _leaky,
    "leaky_relu_backward": _leaky_backward,
    "masked_fill": _filled,
    "maximum": _greatest,
    "mean": _averaged,
    "minimum": _greatest,
    "mm": _product,
    "mse_loss": _squared_error,
    "mse_loss_backward": _squared_error_backward,
    "mul": _multiplied,
    "native_batch_norm": _batch_norm,
    "native_batch_norm_backward": _batch_norm_backward,
    "native_dropout": _dropped,
    "native_group_norm": _group_norm,
    "native_group_norm_backward": _group_norm_backward,
    "native_layer_norm": _layer_norm,
    "native_layer_norm_backward": _layer_norm_backward,
    "nll_loss_backward": _likelihood_backward,
    "nll_loss2d_backward": _likelihood_backward,
    "pow": _powered,
    "sigmoid_backward": _curved,
    "silu_backward": _curved,
    "stack": _listed,
    "sub": _added,
    "sum": _summed,
    "tanh_backward": _curved,
    "where": _chosen,
}
_HANDED_ON = (
    "_reshape_alias _to_copy _unsafe_view abs amax amin clone embedding flip gather gelu index index_select "
    "masked_select max_pool2d_with_indices neg relu repeat roll select_backward silu slice_backward sort "
    "threshold_backward topk tril triu"
)

RULES = {
    **_OWN,
    **dict.fromkeys(_HANDED_ON.split(), _first),
    **dict.fromkeys("cos sigmoid sign sin tanh".split(), _constant(1.0)),
    **dict.fromkeys("new_zeros zeros zeros_like zero_".split(), _made(0.0)),
    **dict.fromkeys("bernoulli new_ones ones ones_like rand rand_like".split(), _made(1.0)),
}
"""By the operation's name without its namespace; what works in place has the rule of what does not."""


def rule_of(name: str) -> Rule | None:
    """Return the rule of an operation such as ``aten::add_``."""
    space, _, base = name.partition("::")
    if space != "aten":
        return None
    return RULES.get(base) or RULES.get(base[:-1] if base.endswith("_") and not base.endswith("__") else base)
