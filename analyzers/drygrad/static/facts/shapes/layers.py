"""Linear layers, convolutions, pools, norms and what else maps features."""

from __future__ import annotations

from drygrad.static.facts.shapes.core import (
    Mismatch,
    Outputs,
    Unknown,
    axis_of,
    broadcast,
    differ,
    numel,
    product,
    replaced,
    shape_text,
    size_text,
)
from drygrad.static.facts.shapes.joins import embedded
from drygrad.static.facts.shapes.products import check_rank
from drygrad.static.facts.shapes.reading import Handler, Reader, integer_of, items_of, size_of_value
from drygrad.static.facts.values import Constant, Dim, Sequence, Shape


def linear(shape: Shape, weight: Shape) -> Shape:
    """Return the shape that a linear layer makes; the weight is (out, in)."""
    if not shape:
        raise Mismatch("linear", "a linear layer takes at least 1 dimension, not a scalar")
    if differ(shape[-1], weight[-1]):
        raise Mismatch(
            "linear", f"the input's last dimension has {shape[-1]} features, expected {size_text(weight[-1])}"
        )
    return (*shape[:-1], *weight[:-1])


def _linear(reader: Reader) -> Shape:
    weight = reader.shape(1, "weight")
    if len(weight) not in (1, 2):
        raise Unknown
    return linear(reader.shape(), weight)


def _linear_module(reader: Reader) -> Shape:
    return linear(reader.shape(), (reader.size("out_features"), reader.size("in_features")))


def _lazy_linear(reader: Reader) -> Shape:
    return linear(reader.shape(), (reader.size("out_features"), None))


def _bilinear(reader: Reader) -> Shape:
    first = linear(reader.shape(), (None, reader.size("in1_features")))
    second = linear(reader.shape(1, "input2"), (None, reader.size("in2_features")))
    return (*(broadcast(first[:-1], second[:-1]) or ()), reader.size("out_features"))


def _embedding_module(reader: Reader) -> Shape:
    return embedded(reader.shape(), reader.size("embedding_dim"))


def _glu(reader: Reader) -> Shape:
    shape = reader.shape()
    dim = axis_of(shape, reader.integer("dim", -1))
    size = shape[dim]
    if isinstance(size, int) and size % 2:
        raise Mismatch("linear", f"glu halves a dimension, and {size} is odd")
    return replaced(shape, dim, size // 2 if isinstance(size, int) else None)


# -- convolutions


def _convolved(size: Dim, kernel: Dim, stride: Dim, padding: Dim, dilation: Dim) -> Dim:
    if not isinstance(kernel, int) or not isinstance(padding, int) or not isinstance(dilation, int):
        return None
    reach = dilation * (kernel - 1) + 1
    if stride == 1 and 2 * padding == reach - 1:
        return size
    if not isinstance(size, int) or not isinstance(stride, int) or stride <= 0:
        return None
    if size + 2 * padding < reach:
        raise Mismatch("conv", f"the kernel reaches over {reach} elements, the padded input has {size + 2 * padding}")
    return (size + 2 * padding - reach) // stride + 1


def _channels(shape: Shape, rank: int, taken: Dim, kind: str = "conv") -> None:
    """Check that the input has the layer's channels, batched or not."""
    if len(shape) not in (rank + 1, rank + 2):
        raise Mismatch(kind, f"expected {rank + 1} or {rank + 2} dimensions, but the input is {shape_text(shape)}")
    if differ(shape[-rank - 1], taken):
        raise Mismatch(kind, f"the input {shape_text(shape)} has {shape[-rank - 1]} channels, expected {taken}")


def _convolve(reader: Reader, rank: int, out: Dim, taken: Dim, kernel: Shape) -> Shape:
    shape = reader.shape()
    _channels(shape, rank, taken)
    padding = reader.given("padding")
    if isinstance(padding, Constant) and padding.value == "same":
        return (*shape[: -rank - 1], out, *shape[-rank:])
    valid = isinstance(padding, Constant) and isinstance(padding.value, str)
    sizes = zip(
        shape[-rank:],
        kernel,
        reader.spatial("stride", rank, (1,) * rank),
        (0,) * rank if valid else reader.spatial("padding", rank, (0,) * rank),
        reader.spatial("dilation", rank, (1,) * rank),
        strict=True,
    )
    return (*shape[: -rank - 1], out, *(_convolved(*each) for each in sizes))


def _transposed(reader: Reader, rank: int, out: Dim, taken: Dim, kernel: Shape) -> Shape:
    shape = reader.shape()
    _channels(shape, rank, taken)
    if reader.given("output_size") is not None:
        raise Unknown
    sizes = zip(
        shape[-rank:],
        kernel,
        reader.spatial("stride", rank, (1,) * rank),
        reader.spatial("padding", rank, (0,) * rank),
        reader.spatial("output_padding", rank, (0,) * rank),
        reader.spatial("dilation", rank, (1,) * rank),
        strict=True,
    )
    return (*shape[: -rank - 1], out, *(_grown(*each) for each in sizes))


def _grown(*sizes: Dim) -> Dim:
    numbers = [size for size in sizes if isinstance(size, int)]
    if len(numbers) != len(sizes):
        return None
    size, kernel, stride, padding, extra, dilation = numbers
    return (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + extra + 1


def _conv(rank: int, transposed: bool = False) -> Handler:
    def handler(reader: Reader) -> Shape:
        weight = reader.shape(1, "weight")
        check_rank(weight, rank + 2, "conv", "the weight")
        groups = reader.integer("groups", 1)
        if transposed:
            return _transposed(reader, rank, product((weight[1], groups)), weight[0], weight[2:])
        return _convolve(reader, rank, weight[0], product((weight[1], groups)), weight[2:])

    return handler


def _conv_module(rank: int, transposed: bool = False, lazy: bool = False) -> Handler:
    convolve = _transposed if transposed else _convolve

    def handler(reader: Reader) -> Shape:
        taken = None if lazy else reader.size("in_channels")
        return convolve(
            reader, rank, reader.size("out_channels"), taken, reader.spatial("kernel_size", rank, (None,) * rank)
        )

    return handler


# -- pools


def _pooled(size: Dim, kernel: Dim, stride: Dim, padding: Dim, dilation: Dim, ceil: bool) -> Dim:
    numbers = [number for number in (size, kernel, stride, padding, dilation) if isinstance(number, int)]
    if len(numbers) != 5 or numbers[2] <= 0:
        return None
    length, kernel_, stride_, padding_, dilation_ = numbers
    room = length + 2 * padding_ - dilation_ * (kernel_ - 1) - 1
    result = (room + (stride_ - 1 if ceil else 0)) // stride_ + 1
    if ceil and (result - 1) * stride_ >= length + padding_:
        result -= 1  # the last window must start inside the input or its left padding
    if result < 1:
        raise Mismatch("pool", f"a window of {kernel_} does not fit into {length + 2 * padding_} elements")
    return result


def _pool(rank: int) -> Handler:
    def handler(reader: Reader) -> Shape | Outputs:
        shape = reader.shape()
        _channels(shape, rank, None, "pool")
        kernel = reader.spatial("kernel_size", rank, (None,) * rank)
        stride = reader.spatial("stride", rank, kernel)
        padding = reader.spatial("padding", rank, (0,) * rank)
        dilation = reader.spatial("dilation", rank, (1,) * rank)
        ceil = reader.flag("ceil_mode")
        sizes = zip(shape[-rank:], kernel, stride, padding, dilation, strict=True)
        result = (*shape[:-rank], *(_pooled(*each, ceil) for each in sizes))
        return Outputs([result] * 2) if reader.flag("return_indices") else result

    return handler


def _adaptive_pool(rank: int) -> Handler:
    def handler(reader: Reader) -> Shape | Outputs:
        shape, wanted = reader.shape(), reader.given("output_size")
        if wanted is None or len(shape) not in (rank + 1, rank + 2):
            raise Unknown  # averages to a size of one take any rank
        if isinstance(wanted, Sequence) and wanted.items is not None and len(wanted.items) == rank:
            sizes = tuple(
                before if item == Constant(None) else size_of_value(item)
                for before, item in zip(shape[-rank:], wanted.items, strict=True)
            )
        else:
            sizes = reader.spatial("output_size", rank, (None,) * rank)
        result = (*shape[:-rank], *sizes)
        return Outputs([result] * 2) if reader.flag("return_indices") else result

    return handler


# -- norms


def _batch_norm(ranks: tuple[int, ...]) -> Handler:
    def handler(reader: Reader) -> Shape:
        shape, features = reader.shape(), reader.size("num_features")
        if len(shape) not in ranks:
            raise Mismatch(
                "norm", f"expected {' or '.join(map(str, ranks))} dimensions, but the input is {shape_text(shape)}"
            )
        if differ(shape[1], features):
            raise Mismatch("norm", f"the input {shape_text(shape)} has {shape[1]} channels, expected {features}")
        return shape

    return handler


def _instance_norm(rank: int) -> Handler:
    def handler(reader: Reader) -> Shape:
        checked = reader.flag("affine") or reader.flag("track_running_stats")
        _channels(reader.shape(), rank, reader.size("num_features") if checked else None, "norm")
        return reader.shape()

    return handler


def _layer_norm(reader: Reader) -> Shape:
    shape, value = reader.shape(), reader.given("normalized_shape")
    if value is None:
        raise Unknown
    sizes = tuple(map(size_of_value, items_of(value))) if isinstance(value, Sequence) else (size_of_value(value),)
    if len(sizes) > len(shape) or any(map(differ, shape[len(shape) - len(sizes) :], sizes)):
        raise Mismatch("norm", f"the input {shape_text(shape)} does not end in the norm's {shape_text(sizes)}")
    return shape


def _group_norm(reader: Reader) -> Shape:
    shape, groups = reader.shape(), reader.size("num_groups")
    if len(shape) < 2:
        raise Mismatch("norm", f"a group norm expects at least 2 dimensions, but the input is {shape_text(shape)}")
    if reader.flag("affine", True) and differ(shape[1], reader.size("num_channels")):
        raise Mismatch("norm", f"the input has {shape[1]} channels, expected {reader.size('num_channels')}")
    if isinstance(shape[1], int) and isinstance(groups, int) and groups > 0 and shape[1] % groups:
        raise Mismatch("norm", f"{shape[1]} channels cannot be divided into {groups} groups")
    return shape


def _norm_function(reader: Reader) -> Shape:
    """Check that a functional norm's statistics have one element for each channel."""
    shape = reader.shape()
    for index, name in enumerate(("running_mean", "running_var"), start=1):
        values = reader.call.values
        given = values[index] if index < len(values) else reader.call.keyword_values.get(name)
        size = numel(getattr(given, "shape", None))
        if len(shape) > 1 and differ(shape[1], size):
            raise Mismatch("norm", f"the input {shape_text(shape)} has {shape[1]} channels, but {name} has {size}")
    return shape


# -- padding, resizing, folding


def padded(shape: Shape, amounts: Shape) -> Shape:
    """Return the shape padded by pairs of amounts, the last dimension's first."""
    if len(amounts) % 2 or len(amounts) > 2 * len(shape):
        raise Mismatch("pad", f"{len(amounts)} amounts do not make pairs for the dimensions of {shape_text(shape)}")
    sizes = list(shape)
    for index in range(len(amounts) // 2):
        before, after, size = amounts[2 * index], amounts[2 * index + 1], sizes[-1 - index]
        if before or after or before is None or after is None:
            known = isinstance(before, int) and isinstance(after, int) and isinstance(size, int)
            sizes[-1 - index] = size + before + after if known else None  # pyright: ignore[reportOperatorIssue]
    return tuple(sizes)


def _pad(reader: Reader) -> Shape:
    value = reader.given("pad")
    if value is None:
        raise Unknown
    return padded(reader.shape(), tuple(map(size_of_value, items_of(value))))


def _pad_module(rank: int) -> Handler:
    def handler(reader: Reader) -> Shape:
        return padded(reader.shape(), reader.spatial("padding", 2 * rank, (None,) * 2 * rank))

    return handler


def _interpolate(reader: Reader) -> Shape:
    shape = reader.shape()
    rank = len(shape) - 2
    if rank < 1:
        raise Mismatch("interpolate", f"interpolation expects 3 to 5 dimensions, but the input is {shape_text(shape)}")
    if reader.given("size") is not None:
        return (*shape[:2], *reader.spatial("size", rank, (None,) * rank))
    factor = reader.given("scale_factor")
    factors = items_of(factor) if isinstance(factor, Sequence) else (factor,) * rank
    return (*shape[:2], *(_scaled(size, each) for size, each in zip(shape[2:], factors, strict=True)))


def _scaled(size: Dim, factor: object) -> Dim:
    if isinstance(size, int) and isinstance(factor, Constant) and isinstance(factor.value, (int, float)):
        return int(size * factor.value)
    return None


def _unfold(reader: Reader) -> Shape:
    """Take the method's windows along one dimension, or the function's patches as columns."""
    if reader.call.form != "method":
        return _patches(reader)
    shape = reader.shape()
    index, size, step = (
        integer_of(reader.operand(i + 1, name)) for i, name in enumerate(("dimension", "size", "step"))
    )
    dim = axis_of(shape, index)
    return (*replaced(shape, dim, _pooled(shape[dim], size, step, 0, 1, False)), size)


def _patches(reader: Reader) -> Shape:
    shape = reader.shape()
    _channels(shape, 2, None, "conv")
    kernel = reader.spatial("kernel_size", 2, (None, None))
    sizes = zip(
        shape[-2:],
        kernel,
        reader.spatial("stride", 2, (1, 1)),
        reader.spatial("padding", 2, (0, 0)),
        reader.spatial("dilation", 2, (1, 1)),
        strict=True,
    )
    return (*shape[:-3], product((shape[-3], *kernel)), product(_convolved(*each) for each in sizes))


SPATIAL = (1, 2, 3)
OPERATIONS: dict[str, Handler] = {
    "linear": _linear,
    "glu": _glu,
    **{f"conv{n}d": _conv(n) for n in SPATIAL},
    **{f"conv_transpose{n}d": _conv(n, transposed=True) for n in SPATIAL},
    **{f"{kind}_pool{n}d": _pool(n) for n in SPATIAL for kind in ("max", "avg")},
    **{f"adaptive_{kind}_pool{n}d": _adaptive_pool(n) for n in SPATIAL for kind in ("max", "avg")},
    **dict.fromkeys(("batch_norm", "instance_norm"), _norm_function),
    **dict.fromkeys(("layer_norm", "rms_norm"), _layer_norm),
    "group_norm": _group_norm,
    "pad": _pad,
    **dict.fromkeys(("interpolate", "upsample"), _interpolate),
    "unfold": _unfold,
}
MODULES: dict[str, Handler] = {
    "Linear": _linear_module,
    "LazyLinear": _lazy_linear,
    "Bilinear": _bilinear,
    "Embedding": _embedding_module,
    "GLU": _glu,
    **{f"Conv{n}d": _conv_module(n) for n in SPATIAL},
    **{f"LazyConv{n}d": _conv_module(n, lazy=True) for n in SPATIAL},
    **{f"ConvTranspose{n}d": _conv_module(n, transposed=True) for n in SPATIAL},
    **{f"{kind}Pool{n}d": _pool(n) for n in SPATIAL for kind in ("Max", "Avg")},
    **{f"Adaptive{kind}Pool{n}d": _adaptive_pool(n) for n in SPATIAL for kind in ("Max", "Avg")},
    "BatchNorm1d": _batch_norm((2, 3)),
    "BatchNorm2d": _batch_norm((4,)),
    "BatchNorm3d": _batch_norm((5,)),
    "SyncBatchNorm": _batch_norm((2, 3, 4, 5)),
    **{f"InstanceNorm{n}d": _instance_norm(n) for n in SPATIAL},
    **dict.fromkeys(("LayerNorm", "RMSNorm"), _layer_norm),
    "GroupNorm": _group_norm,
    **{
        f"{kind}Pad{n}d": _pad_module(n)
        for n in SPATIAL
        for kind in ("Zero", "Constant", "Reflection", "Replication", "Circular")
    },
    **dict.fromkeys(("Upsample", "UpsamplingNearest2d", "UpsamplingBilinear2d"), _interpolate),
    "Unfold": _unfold,
}
