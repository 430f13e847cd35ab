"""Operations whose result has the operand's shape, or the shape that the operands broadcast to."""

from __future__ import annotations

from drygrad.static.facts.shapes.core import Mismatch, Outputs, Unknown, broadcast, differ, dimension, shape_text, words
from drygrad.static.facts.shapes.reading import Handler, Reader, operand_shape
from drygrad.static.facts.values import Shape, Tensor, Value

SAME = frozenset(
    words("""
    relu relu6 gelu silu mish elu selu celu leaky_relu prelu rrelu sigmoid logsigmoid tanh hardtanh hardsigmoid
    hardswish softplus softsign tanhshrink hardshrink softshrink threshold dropout dropout1d dropout2d dropout3d
    alpha_dropout feature_alpha_dropout native_dropout local_response_norm
    exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square reciprocal abs absolute neg negative positive sign sgn
    sin cos tan asin acos atan arcsin arccos arctan sinh cosh asinh acosh atanh arcsinh arccosh arctanh sinc
    floor ceil round trunc fix frac erf erfc erfinv lgamma digamma mvlgamma i0 logit expit deg2rad rad2deg angle conj
    isnan isinf isfinite isposinf isneginf isreal signbit logical_not bitwise_not nan_to_num
    clone detach contiguous to float half double int long short char byte bool bfloat16 cpu cuda type_as
    pin_memory requires_grad resolve_conj resolve_neg dequantize alias identity
    tril triu fliplr flipud flip roll bernoulli
    zeros_like ones_like empty_like full_like rand_like randn_like randint_like
    scatter scatter_add scatter_reduce index_fill index_add index_copy index_reduce index_put put
    zero fill uniform exponential random bucketize
    """)
)

ALONG = frozenset(words("softmax log_softmax softmin gumbel_softmax cumsum cumprod logcumsumexp argsort normalize"))
"""Operations that keep the shape and take a dimension, which must exist."""

BROADCAST = {
    name: count
    for count, names in {
        2: """
            add sub subtract mul multiply div divide true_divide floor_divide remainder fmod pow float_power maximum
            minimum fmax fmin atan2 arctan2 hypot copysign xlogy nextafter ldexp logaddexp logaddexp2 gcd lcm rsub
            eq ne lt le gt ge not_equal less less_equal greater greater_equal isclose
            logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor bitwise_left_shift
            bitwise_right_shift masked_fill
            masked_scatter heaviside
        """,
        3: "lerp addcmul addcdiv where",
    }.items()
    for name in names.split()
}
"""Operations whose first operands broadcast, and how many those are."""

NAMES = ("input", "other", "other")


def keep(reader: Reader) -> Shape:
    """Return the operand's shape."""
    return reader.shape()


def _along(reader: Reader) -> Shape:
    shape = reader.shape()
    for dim in reader.integers("dim") or ():
        dimension(dim, len(shape))
    return shape


def _operands(reader: Reader, count: int) -> tuple[Value, ...]:
    """Return the operands that broadcast, in order, however they were passed."""
    names = {
        "where": ("condition", "input", "other"),
        "lerp": ("input", "end", "weight"),
        "masked_fill": ("input", "mask"),
        "masked_scatter": ("input", "mask"),
        "pow": ("input", "exponent"),
        "addcmul": ("input", "tensor1", "tensor2"),
        "addcdiv": ("input", "tensor1", "tensor2"),
    }.get(reader.call.operation, NAMES)
    return tuple(reader.operand(index, names[index]) for index in range(count))


def broadcasting(reader: Reader) -> Shape | None:
    """Return the shape that the operands broadcast to; an in-place form cannot grow its first operand."""
    values = _operands(reader, BROADCAST[reader.call.operation])
    if not any(isinstance(value, Tensor) for value in values):
        raise Unknown
    if reader.call.inplace:
        return _into(operand_shape(values[0]), *map(operand_shape, values[1:]))
    return broadcast(*map(operand_shape, values))


def _into(target: Shape, *shapes: Shape) -> Shape:
    result = broadcast(target, *shapes)
    grown = result is not None and (len(result) > len(target) or any(map(differ, result, target)))
    if grown:
        raise Mismatch(
            "broadcast", f"the result {shape_text(result or ())} does not fit in place into {shape_text(target)}"
        )
    return target


def _where(reader: Reader) -> Shape | Outputs | None:
    if len(reader.call.values) + len(reader.call.keyword_values) > 1:
        return _method_where(reader) if reader.call.form == "method" else broadcasting(reader)
    return Outputs([(None,)] * len(reader.shape(0, "condition")))


def _method_where(reader: Reader) -> Shape | None:
    return broadcast(
        reader.shape(), operand_shape(reader.operand(1, "condition")), operand_shape(reader.operand(2, "other"))
    )


def _clamp(reader: Reader) -> Shape | None:
    bounds = (reader.given("min"), reader.given("max"))
    return broadcast(reader.shape(), *(operand_shape(bound) for bound in bounds if bound is not None))


def _copy(reader: Reader) -> Shape:
    return _into(reader.shape(), operand_shape(reader.operand(1, "other", "src")))


def in_place(reader: Reader) -> Shape:
    """Return the receiver's shape, for an in-place form without a rule of its own."""
    return reader.shape()


INTO = frozenset((*BROADCAST, "copy"))
"""The operations whose in-place form checks that the other operands fit."""

OPERATIONS: dict[str, Handler] = {
    **dict.fromkeys(SAME, keep),
    **dict.fromkeys(ALONG, _along),
    **dict.fromkeys(BROADCAST, broadcasting),
    **dict.fromkeys(("clamp", "clip", "clamp_min", "clamp_max"), _clamp),
    "where": _where,
    "copy": _copy,
}
