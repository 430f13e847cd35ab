"""The dtype of what an operation makes: torch's own where its rule is written down here, else unknown."""

from __future__ import annotations

from collections.abc import Iterable

from drygrad.static.facts.frame import Frame
from drygrad.static.facts.operations import (
    AUTOCAST_KEEPS,
    AUTOCAST_LOWERS,
    BOOLEAN,
    CASTS,
    INTEGRAL,
    MODULE_OPERATIONS,
    VIEWS,
)
from drygrad.static.facts.values import (
    FLOATING,
    INTEGERS,
    NONE,
    UNKNOWN,
    Constant,
    Dtype,
    Number,
    Sequence,
    Tensor,
    TorchCall,
    Value,
    is_unknown,
)

_OF_THE_FIRST = VIEWS | frozenset(
    "alias_copy amax amin aminmax as_strided as_strided_copy as_strided_scatter atleast_1d atleast_2d atleast_3d "
    "avg_pool1d avg_pool2d avg_pool3d broadcast_to ceil channel_shuffle clone conj conj_physical constant_pad_nd copy "
    "cummax cummin diag diag_embed diagflat diagonal_copy diagonal_scatter diff dsplit empty_like expand_copy fftshift "
    "fill flip fliplr flipud floor full_like gather hardtanh hsplit identity ifftshift index_add index_copy index_fill "
    "index_put index_reduce index_select interpolate kthvalue masked_fill masked_scatter masked_select max_pool1d "
    "max_pool2d max_pool3d median min max mode msort nan_to_num nanmedian narrow_copy neg ones_like pad "
    "permute_copy pixel_shuffle pixel_unshuffle put relu relu6 repeat repeat_interleave resize resize_as resolve_conj "
    "resolve_neg roll rot90 round scatter scatter_add scatter_reduce select_copy select_scatter setitem sgn sign "
    "slice_scatter sort squeeze_copy split_with_sizes t_copy take take_along_dim threshold tile topk transpose_copy "
    "tril triu trunc unbind_copy unfold_copy unique unique_consecutive unsafe_chunk unsafe_split unsqueeze_copy "
    "view_copy vsplit zero zeros_like tensor_split".split()
)
"""Operations whose dtype is that of the first operand, whatever the other arguments are."""
_COMMON = frozenset(
    "abs add addbmm addcmul addmm addmv addr baddbmm bilinear bitwise_and bitwise_left_shift bitwise_or "
    "bitwise_right_shift bitwise_xor bitwise_not block_diag bmm broadcast_tensors cartesian_prod cat clamp clamp_max "
    "clamp_min column_stack combinations conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d cross "
    "dot dstack einsum floor_divide fmax fmin fmod gcd heaviside hstack inner kron lcm linear matmul maximum meshgrid "
    "minimum mm mul multi_dot mv outer pow remainder rsub square stack sub tensordot vdot vstack where".split()
)
"""Operations whose dtype is the one that their operands promote to."""
_COMMON_FLOAT = frozenset(
    "acos acosh angle asin asinh atan atan2 atanh copysign corrcoef cos cosh cosine_embedding_loss deg2rad digamma div "
    "entr erf erfc erfcx erfinv exp exp2 expm1 i0 i0e i1 i1e ldexp lgamma log log10 log1p log2 log_ndtr logit "
    "logsumexp margin_ranking_loss mvlgamma ndtr ndtri pairwise_distance poisson_nll_loss polygamma rad2deg reciprocal "
    "rsqrt sigmoid sin sinc sinh softsign sqrt tan tanh tanhshrink trapezoid trapz triplet_margin_loss "
    "triplet_margin_with_distance_loss xlog1py xlogy".split()
)
"""The same, but of integers these operations make the default float dtype."""
_FLOATS = frozenset(MODULE_OPERATIONS.values()) | frozenset(
    "adaptive_max_pool3d addcdiv bilinear cdist cholesky cholesky_inverse cholesky_solve cond det dist "
    "feature_alpha_dropout frac gaussian_nll_loss grid_sample gumbel_softmax histc hypot inv l1_loss lerp logaddexp "
    "logaddexp2 logcumsumexp logdet lu_solve matrix_exp matrix_power max_unpool1d max_unpool2d max_unpool3d mean "
    "multilabel_margin_loss multilabel_soft_margin_loss nanmean nanquantile nextafter norm normalize pdist pinv "
    "pinverse prelu quantile renorm rrelu scaled_dot_product_attention slogdet solve solve_triangular std std_mean "
    "svd svdvals eigh qr tensorinv tensorsolve var var_mean vecdot".split()
) - _OF_THE_FIRST - _COMMON - _COMMON_FLOAT  # fmt: skip
"""Operations on floats of one dtype; what their integers are (indices, lengths) does not matter."""
_SUMS = frozenset("cumprod cumsum nansum prod sum sum_to_size trace".split())
"""Operations that make int64 of integers and bool, else keep the dtype."""
_OF_UNKNOWN_DTYPE = frozenset(
    "affine_grid complex cov cumulative_trapezoid fft fft2 fftn float_power fold gradient hfft ifft ifft2 ifftn irfft "
    "irfft2 irfftn istft polar rfft rfft2 rfftn stft to type view_as_complex view_as_real".split()
)
RECORDED = _OF_THE_FIRST | _COMMON | _COMMON_FLOAT | _FLOATS | _SUMS | frozenset(CASTS) | _OF_UNKNOWN_DTYPE
"""Operations that autograd records where they give floats; of others it is not known."""

_ARITHMETIC = frozenset(
    "add bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor clamp clamp_max clamp_min div "
    "floor_divide fmod mul pow remainder rsub sub where xlogy".split()
)
"""Operations in which a Python number takes part as an operand."""
_TAKES_DTYPE = frozenset("cumprod cumsum log_softmax mean nanmean nansum norm prod softmax softmin sum".split())
_TAKES_DTYPE_AT = {"softmax": 2, "log_softmax": 2, "softmin": 2, "norm": 4}
"""From which position on an argument may be the dtype; of other operations it is given by name only."""
_WIDE = frozenset({"float32", "float64"})
"""The dtypes that an operand of a usual dtype does not widen, but for float64 itself."""
_AUTOCAST_CASTS = frozenset({"float16", "bfloat16", "float32"})
"""The dtypes that autocast changes: it leaves float64 and integers alone."""
_COMPLEX = frozenset({"complex64", "complex128"})
_REAL_OF_COMPLEX = frozenset({"real", "imag"})
_KEEPS_COMPLEX = frozenset({"add", "sub", "mul", "div", "matmul", "cat", "stack"})
_KINDS = (frozenset({"bool"}), INTEGERS, FLOATING, _COMPLEX)
"""The kinds of dtypes, from the one that gives way to all to the one that gives way to none."""
_FLOAT = 2
_CONDITION = Tensor(shape=(), dtype="bool")
"""What chooses between two values, and takes no part in their dtype."""


def result_dtype(
    frame: Frame, operation: str, tensors: tuple[Tensor, ...], values: tuple[Value, ...], call: TorchCall | None
) -> str | None:
    """Return the dtype of an operation's result; None where torch's rule is not known, or an operand's dtype."""
    if call is not None and "out" in call.keyword_values:
        out = call.keyword_values["out"]
        return out.dtype if isinstance(out, Tensor) else None
    asked = _asked_for(operation, values, call)
    if asked is not None:
        return asked.name if isinstance(asked, Dtype) else None
    if frame.state.autocast in FLOATING and operation in AUTOCAST_LOWERS:
        sure = call is not None and call.module is not None
        return frame.state.autocast if sure or any(t.dtype in _AUTOCAST_CASTS for t in tensors) else None
    dtype = _by_rule(frame, operation, tensors, values, call)
    if dtype in FLOATING and frame.state.autocast != "off" and operation not in AUTOCAST_KEEPS:
        return None
    return dtype


def _asked_for(operation: str, values: tuple[Value, ...], call: TorchCall | None) -> Value | None:
    """Return the dtype that a call asks for by an argument; None where it asks for none."""
    given = next((value for value in values[1:] if isinstance(value, Dtype)), None)
    if given is not None or call is None:
        return given
    by_keyword = call.keyword_values.get("dtype", NONE)
    if by_keyword != NONE:
        return by_keyword
    named = operation in _TAKES_DTYPE and any(keyword.arg is None for keyword in call.node.keywords)
    placed = any(map(is_unknown, values[_TAKES_DTYPE_AT.get(operation, len(values)) :]))
    return UNKNOWN if named or placed else None


def _by_rule(
    frame: Frame, operation: str, tensors: tuple[Tensor, ...], values: tuple[Value, ...], call: TorchCall | None
) -> str | None:
    if operation in BOOLEAN:
        return _of_test(operation, values, call)
    if operation in INTEGRAL:
        return _of_counting(call, values)
    if operation in CASTS:
        return CASTS[operation]
    if operation in ("max", "min") and any(isinstance(v, Tensor) for v in values[1:]):
        operation = "maximum"
    if operation in _OF_THE_FIRST or operation in _SUMS:
        return _of_first(operation, values, call)
    if operation in _FLOATS:
        return _common_float(tensors, values, call)
    if operation in _COMMON or operation in _COMMON_FLOAT:
        return _common(frame, operation, tensors, values, call)
    return None


def _of_first(operation: str, values: tuple[Value, ...], call: TorchCall | None) -> str | None:
    first = _first(values, call)
    dtype = first.dtype if isinstance(first, Tensor) else None
    if operation in _SUMS and _is_whole(dtype):
        return "int64"
    return None if dtype in _COMPLEX and operation in _REAL_OF_COMPLEX else dtype


def _common(
    frame: Frame, operation: str, tensors: tuple[Tensor, ...], values: tuple[Value, ...], call: TorchCall | None
) -> str | None:
    if operation == "where":
        if len(values) == 1:  # the indices of what holds
            return "int64"
        tensors = (_CONDITION, *(tensor for tensor in tensors if tensor is not values[0]))
    default = frame.module.default_dtype
    dtype = _promoted(tensors, _scalars(operation, values, call), default)
    if dtype not in _WIDE and _may_hide_tensors(values, call):
        return None
    if dtype in _COMPLEX:
        return dtype if operation in _KEEPS_COMPLEX else None
    if dtype == "bool" and operation in ("square", "einsum"):
        return None
    if operation in _COMMON_FLOAT and _is_whole(dtype):
        rounds = _rounds(call) if operation == "div" else False
        return None if rounds is None else dtype if rounds else default
    return dtype


def _is_whole(dtype: str | None) -> bool:
    return dtype == "bool" or dtype in INTEGERS


def _first(values: tuple[Value, ...], call: TorchCall | None) -> Value | None:
    return values[0] if values or call is None else call.keyword_values.get("input")


def _of_test(operation: str, values: tuple[Value, ...], call: TorchCall | None) -> str | None:
    """Return the dtype of a test: bool, but ``any`` and ``all`` of uint8 are uint8."""
    first = _first(values, call)
    if operation in ("any", "all"):
        return "bool" if isinstance(first, Tensor) and first.dtype not in (None, "uint8") else None
    return "bool"


def _of_counting(call: TorchCall | None, values: tuple[Value, ...]) -> str | None:
    """Return the dtype of indices and counts: int64, unless the call asks for int32 or weighs what it counts."""
    if call is None:
        return "int64"
    small = call.keyword_values.get("out_int32", Constant(False))
    weighed = call.operation == "bincount" and (len(values) > 1 or "weights" in call.keywords)
    return "int64" if small == Constant(False) and not weighed else None


def _rounds(call: TorchCall | None) -> bool | None:
    """Say whether a division rounds, and so keeps integers; None where the mode is not known."""
    mode = call.keyword_values.get("rounding_mode", NONE) if call is not None else NONE
    return mode != NONE if isinstance(mode, Constant) else None


def _common_float(tensors: tuple[Tensor, ...], values: tuple[Value, ...], call: TorchCall | None) -> str | None:
    """Return the one float dtype among the operands."""
    dtypes = {tensor.dtype for tensor in tensors} - INTEGERS - {"bool"}
    dtype = dtypes.pop() if len(dtypes) == 1 else None
    if dtype not in FLOATING or (dtype not in _WIDE and _may_hide_tensors(values, call)):
        return None
    return dtype


# -- promotion --------------------------------------------------------------------------------------------------


def _scalars(operation: str, values: tuple[Value, ...], call: TorchCall | None) -> list[Value]:
    """Return the Python numbers that take part in an operation."""
    if operation not in _ARITHMETIC:
        return []
    named = call.keyword_values if call is not None else dict[str, Value]()
    operands = (*values, *(named[name] for name in ("other", "exponent", "min", "max", "input") if name in named))
    return [v for v in operands if isinstance(v, Number) or (isinstance(v, Constant) and v != NONE)]


def _promoted(tensors: tuple[Tensor, ...], scalars: list[Value], default: str) -> str | None:
    """Return what torch promotes operands to: dimensions count before kinds of numbers only within a kind."""
    if not tensors or any(tensor.dtype is None for tensor in tensors):
        return None
    kinds = [_kind(tensor.dtype) for tensor in tensors]
    highest = max((kind for kind in kinds if kind is not None), default=0)
    if None in kinds or (highest < _FLOAT and any(isinstance(value, Number) for value in scalars)):
        return None
    scalar = max((_kind_of_scalar(value) for value in scalars), default=0)
    if scalar > highest:
        return {1: "int64", _FLOAT: default}.get(scalar)
    of_kind = [tensor for tensor, kind in zip(tensors, kinds, strict=True) if kind == highest]
    with_dimensions = [tensor for tensor in of_kind if tensor.shape != ()]
    counted = {tensor.dtype for tensor in with_dimensions or of_kind}
    if len(counted) == 1 and (not with_dimensions or _surely_counts(of_kind)):
        return counted.pop()
    return _widest(counted) if all(tensor.shape for tensor in with_dimensions) else None


def _surely_counts(tensors: list[Tensor]) -> bool:
    """Say whether the tensors with dimensions decide: one of unknown rank may have none, and give way to another."""
    return any(t.shape for t in tensors) or len({t.dtype for t in tensors}) == 1


def _widest(dtypes: set[str | None]) -> str | None:
    """Return what several floats, or several integers, have in common."""
    if dtypes == {"float16", "bfloat16"}:
        return "float32"
    for order in (("float64", "float32"), ("int64", "int32", "int16")):
        widest = next((dtype for dtype in order if dtype in dtypes), None)
        if widest is not None and "floating" not in dtypes:
            return widest
    return None


def _kind(dtype: str | None) -> int | None:
    return next((index for index, kind in enumerate(_KINDS) if dtype in kind), None)


def _kind_of_scalar(value: Value) -> int:
    """Return the kind of a Python number; an unknown one is of no kind above a tensor's."""
    match value:
        case Number() | Constant(value=bool()):
            return 0
        case Constant(value=int()):
            return 1
        case Constant(value=float()):
            return _FLOAT
        case _:
            return len(_KINDS)


def _may_hide_tensors(values: tuple[Value, ...], call: TorchCall | None) -> bool:
    """Say whether nothing is known of some operand: it may be a tensor, and decide the dtype."""
    named = call.keyword_values.values() if call is not None else ()
    return any(map(is_unknown, flat((*values, *named))))


def flat(values: Iterable[Value]) -> Iterable[Value]:
    """Yield values, those in lists in place of the lists."""
    for value in values:
        if isinstance(value, Sequence):
            yield from flat(value.items if value.items is not None else (value.element,))
        else:
            yield value
