"""What an error asks of the inputs, read from the call of torch's that failed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, cast

import torch

from drygrad.worker.search.trial import Call
from drygrad.worker.search.want import Want

_Reader = Callable[[Call], Iterator[Want]]


def by_call(call: Call) -> Iterator[Want]:
    """Yield what a call asks for by its function and its arguments."""
    reader = _BY_CALL.get(call.name)
    if reader is not None:
        yield from reader(call)


def _linear(call: Call) -> Iterator[Want]:
    given, weight = call.argument(0, "input"), call.argument(1, "weight")
    if not (_is_tensor(given) and _is_tensor(weight)):
        return
    why = f"Linear expects {weight.shape[1]} features"
    yield from _sized(call, given, -1, weight.shape[1], why)
    yield from _typed(call, given, weight)
    if given.dim() and given.shape[-1] != weight.shape[1]:
        yield Want("size", given.shape[-1], weight.shape[1], why=f"Linear gets {given.shape[-1]} features")


def _convolution(call: Call) -> Iterator[Want]:
    given, weight = call.argument(0, "input"), call.argument(1, "weight")
    if not (_is_tensor(given) and _is_tensor(weight)):
        return
    transposed = "transpose" in call.name
    groups = call.argument(7 if transposed else 6, "groups")
    groups = groups if isinstance(groups, int) else 1
    channels = weight.shape[0] if transposed else weight.shape[1] * groups
    paths, rank = call.origins(given), weight.dim()
    why = f"{_layer(call.name)} expects {channels} channels"
    if given.dim() != rank:
        yield Want("rank", rank, given.dim(), shape=(channels,), paths=paths, why=why)
    else:
        yield from _sized(call, given, 1, channels, why)
    yield Want("larger", paths=paths, why="the layers need a larger input")
    yield from _typed(call, given, weight)


def _embedding(call: Call) -> Iterator[Want]:
    given, weight = call.argument(0, "input"), call.argument(1, "weight")
    if not (_is_tensor(given) and _is_tensor(weight)):
        return
    paths, rows = call.origins(given), weight.shape[0]
    why = f"Embedding has {rows} rows"
    if given.dtype not in (torch.int64, torch.int32):
        yield Want("dtype", rows, dtype="int64", paths=paths, why=why)
    yield Want("range", rows, paths=paths, why=why)


def _normalised(call: Call) -> Iterator[Want]:
    given, wanted = call.argument(0, "input"), call.argument(1, "normalized_shape")
    if _is_tensor(given) and isinstance(wanted, (tuple, list)):
        sizes = cast("list[int]", [*wanted])
        for axis, size in zip(range(-len(sizes), 0), sizes):
            yield from _sized(call, given, axis, int(size), f"the norm expects {size} features")


def _batch_normalised(call: Call) -> Iterator[Want]:
    given, mean = call.argument(0, "input"), call.argument(1, "running_mean")
    if _is_tensor(given) and _is_tensor(mean) and given.dim() > 1:
        yield from _sized(call, given, 1, mean.shape[0], f"the norm expects {mean.shape[0]} channels")


def _class_loss(call: Call) -> Iterator[Want]:
    given, target = call.argument(0, "input"), call.argument(1, "target")
    if not (_is_tensor(given) and _is_tensor(target)) or given.dim() == 0:
        return
    classes = given.shape[1 if given.dim() > 1 else 0]
    shape = (given.shape[0], *given.shape[2:]) if given.dim() > 1 else ()
    why = f"the loss expects classes below {classes}"
    paths, count = call.origins(target), int(target.numel())
    yield Want("shape", classes, count, dtype="int64", shape=tuple(shape), paths=paths, why=why)
    if target.dim() and target.shape[0] != given.shape[0]:
        yield Want("size", target.shape[0], given.shape[0], paths=call.origins(given), why=why)


def _paired_loss(call: Call) -> Iterator[Want]:
    given, target = call.argument(0, "input"), call.argument(1, "target")
    if not (_is_tensor(given) and _is_tensor(target)):
        return
    for one, other in ((target, given), (given, target)):
        paths = call.origins(one)
        if paths:
            dtype = _name(other.dtype) if other.dtype.is_floating_point else "float32"
            why = "the loss expects equal shapes"
            unit = "unit" if call.name == "binary_cross_entropy" else ""
            yield Want("shape", dtype=dtype, shape=tuple(other.shape), text=unit, paths=paths, why=why)


def _product(call: Call) -> Iterator[Want]:
    pair = call.tensors()[:2]
    if len(pair) < 2 or not (pair[0].dim() and pair[1].dim()):
        return
    one, other = pair
    inner = other.shape[-2 if other.dim() > 1 else 0]
    why = "the product needs equal inner dimensions"
    if one.shape[-1] != inner:
        yield from _sized(call, one, -1, inner, why)
        yield from _sized(call, other, -2 if other.dim() > 1 else 0, one.shape[-1], why)
    yield from _typed(call, one, other)
    yield from _typed(call, other, one)


def _viewed(call: Call) -> Iterator[Want]:
    given = call.argument(0, "input")
    rest: list[Any] = [*call.arguments[1:], *call.keywords.values()]
    sizes = cast("list[Any]", [*rest[0]] if len(rest) == 1 and isinstance(rest[0], (tuple, list)) else rest)
    if not (_is_tensor(given) and given.dim() and given.numel() and all(type(size) is int for size in sizes)):
        return
    wanted = math.prod(size for size in sizes if size != -1)
    paths, batch = call.origins(given), int(given.shape[0])
    each = wanted if -1 in sizes else wanted // batch if wanted % batch == 0 else wanted
    why = f"it is viewed as {sizes}"
    yield Want("shape", dtype="float32", shape=(batch, each), paths=paths, why=why)
    for channels in (1, 3):
        side = round((each / channels) ** 0.5)
        if side * side * channels == each and given.dim() > 2:
            yield Want("shape", dtype="float32", shape=(batch, channels, side, side), paths=paths, why=why)
    yield Want("size", each, given.numel() // batch, paths=paths, why=why)


def _gathered(call: Call) -> Iterator[Want]:
    for tensor in call.tensors():
        if call.origins(tensor):
            yield Want("dtype", dtype="int64", paths=call.origins(tensor), why="it is used as an index")
            yield Want("range", 1, paths=call.origins(tensor), why="it is used as an index")


def _added(call: Call) -> Iterator[Want]:
    """Read ``index_add`` and its like: the index is a vector, as long as the source is there."""
    given, dim = call.argument(0, "self"), call.argument(1, "dim")
    index, source = call.argument(2, "index"), call.argument(3, "source")
    if not (_is_tensor(given) and _is_tensor(index) and type(dim) is int):
        return
    why = "it is used as an index"
    if index.dim() > 1:
        yield Want("rank", 1, index.dim(), paths=call.origins(index), why=why)
    if index.dtype not in (torch.int64, torch.int32):
        yield Want("dtype", dtype="int64", paths=call.origins(index), why=why)
    if _is_tensor(source) and source.dim():
        why = "index and source have one length"
        shape = [*source.shape] if source.dim() == given.dim() else [*given.shape]
        sizes = [*given.shape]
        if given.dim():
            sizes[dim] = index.shape[0] if index.dim() else 1
        for axis, (got, want) in enumerate(zip(shape, sizes)):
            if got != want and source.dim() == given.dim():
                yield from _sized(call, source, axis, want, why)
                yield from _sized(call, index, 0, got, why) if axis == dim else ()
        if shape != sizes or source.dim() != given.dim():
            yield Want("shape", dtype="float32", shape=tuple(sizes), paths=call.origins(source), why=why)
    yield Want("range", max(1, given.shape[dim] if given.dim() else 1), paths=call.origins(index), why=why)


def _picked(call: Call) -> Iterator[Want]:
    """Read ``gather`` and ``scatter``: the index has as many dimensions as the tensor, and no more elements."""
    given, dim, index = call.argument(0, "input"), call.argument(1, "dim"), call.argument(2, "index")
    if _is_tensor(given) and _is_tensor(index) and type(dim) is int and given.dim():
        paths, why = call.origins(index), "it is used as an index"
        high = int(given.shape[dim]) if -given.dim() <= dim < given.dim() else 1
        if index.dim() != given.dim():
            yield Want("rank", given.dim(), index.dim(), paths=paths, why=why)
            yield Want(
                "rank", index.dim(), given.dim(), paths=call.origins(given), why="its index has fewer dimensions"
            )
        for axis, (got, want) in enumerate(zip(index.shape, given.shape)):
            if got > want and axis != dim % given.dim():
                yield from _sized(call, index, axis, want, why)
                yield from _sized(call, given, axis, got, why)
        yield Want("dtype", high, dtype="int64", paths=paths, why=why)
        yield Want("range", high, paths=paths, why=why)


def _joined(call: Call) -> Iterator[Want]:
    """Read ``cat`` and ``stack``: all have the same rank, and the same sizes elsewhere."""
    tensors = call.tensors()
    if len(tensors) < 2:
        return
    ranks = {tensor.dim() for tensor in tensors}
    why = "they are joined"
    for tensor in tensors:
        for rank in ranks - {tensor.dim()}:
            yield Want("rank", rank, tensor.dim(), paths=call.origins(tensor), why=why)
    if len(ranks) == 1:
        for tensor in tensors[1:]:
            for axis, (got, want) in enumerate(zip(tensor.shape, tensors[0].shape)):
                if got != want:
                    yield from _sized(call, tensor, axis, want, why)
                    yield from _sized(call, tensors[0], axis, got, why)


def _timed(call: Call) -> Iterator[Want]:
    """Read ``ctc_loss``: targets for each of the batch, lengths that fit."""
    given, targets = call.argument(0, "log_probs"), call.argument(1, "targets")
    if not (_is_tensor(given) and _is_tensor(targets)):
        return
    if given.dim() != 3:
        yield Want("rank", 3, given.dim(), paths=call.origins(given), why="the loss expects steps, batch and classes")
        yield Want("other")
        return
    time, batch, classes = given.shape
    why = "the loss expects labels for each sample"
    yield Want("shape", classes, dtype="int64", shape=(batch, max(1, time // 4)), paths=call.origins(targets), why=why)
    for position, name, size in ((2, "input_lengths", time), (3, "target_lengths", max(1, time // 4))):
        lengths = call.argument(position, name)
        if _is_tensor(lengths):
            paths = call.origins(lengths)
            yield Want("shape", size, dtype="int64", shape=(batch,), paths=paths, why="the loss expects lengths")


_BY_CALL: dict[str, _Reader] = {
    "linear": _linear,
    **{f"conv{n}d": _convolution for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": _convolution for n in (1, 2, 3)},
    "embedding": _embedding,
    "layer_norm": _normalised,
    "rms_norm": _normalised,
    "batch_norm": _batch_normalised,
    "cross_entropy": _class_loss,
    "nll_loss": _class_loss,
    **dict.fromkeys(
        (
            "mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div"
        ).split(),
        _paired_loss,
    ),
    **dict.fromkeys("matmul __matmul__ __rmatmul__ bmm mm mv dot".split(), _product),
    **dict.fromkeys("view reshape".split(), _viewed),
    **dict.fromkeys("index_select __getitem__ one_hot bincount".split(), _gathered),
    **dict.fromkeys("index_add index_add_ index_copy_".split(), _added),
    **dict.fromkeys("gather scatter scatter_ scatter_add scatter_add_ scatter_reduce take_along_dim".split(), _picked),
    **dict.fromkeys("cat stack concat concatenate hstack vstack".split(), _joined),
    "ctc_loss": _timed,
}


def _sized(call: Call, given: torch.Tensor, axis: int, want: int, why: str) -> Iterator[Want]:
    if -given.dim() <= axis < given.dim() and given.shape[axis] != want:
        yield Want("size", want, given.shape[axis], paths=call.origins(given), why=why)


def _typed(call: Call, given: torch.Tensor, other: torch.Tensor) -> Iterator[Want]:
    if given.dtype != other.dtype:
        name = _name(other.dtype)
        yield Want("dtype", dtype=name, paths=call.origins(given), why=f"it meets {name}")


def by_dtype(call: Call) -> Iterator[Want]:
    """Ask for the dtypes that the operation could want: that of its other tensors, then any."""
    for tensor in call.tensors():
        paths = call.origins(tensor)
        if not paths:
            continue
        for dtype in ("float32", "int64", "bool"):
            if _name(tensor.dtype) != dtype and _speaks_of_dtype(call):
                yield Want("dtype", dtype=dtype, paths=paths, why=f"{call.name} expects {dtype}")


def _speaks_of_dtype(call: Call) -> bool:
    return call.name not in ("view", "reshape", "cat", "stack", "unflatten")


def _layer(name: str) -> str:
    return {"conv": "Conv"}.get(name[:4], name[:4]) + (f"Transpose{name[-2:]}" if "transpose" in name else name[4:])


def _name(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)
