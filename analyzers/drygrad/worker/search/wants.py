"""What an error asks of the inputs: read from the call that failed, from the words, or from the code that raised."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Optional, Tuple

import torch

from drygrad.worker.errors import text_of
from drygrad.worker.search.comparisons import compared, unpacked
from drygrad.worker.search.nodes import Path
from drygrad.worker.search.trial import Call, Failure, Mismatch


@dataclass(frozen=True)
class Want:
    """One thing that an error asks for.

    ``kind``: size (``got`` should be ``want``, or a multiple of it) · rank · dtype · range (values below ``want``) ·
    shape · larger · device · other (anything else in this place). ``paths`` are the parts it concerns; None: any.
    """

    kind: str
    want: int = 0
    got: int = 0
    multiple: bool = False
    dtype: str = ""
    shape: tuple[int, ...] = ()
    text: str = ""
    paths: Optional[frozenset[Path]] = None
    why: str = ""


_Reader = Callable[[Call], Iterator[Want]]


def wants(failure: Failure) -> Iterator[Want]:
    """Yield what an error asks for, the surest first."""
    call = failure.call
    if call is not None:
        reader = _BY_CALL.get(call.name)
        if reader is not None:
            yield from reader(call)
    yield from _by_words(failure)
    yield from compared(failure)
    yield from unpacked(failure)
    if call is not None:
        yield from _by_dtype(call)


# -- the call that failed ----------------------------------------------------------------------------------------


def _linear(call: Call) -> Iterator[Want]:
    given, weight = call.argument(0, "input"), call.argument(1, "weight")
    if not (_is_tensor(given) and _is_tensor(weight)):
        return
    why = f"Linear wants {weight.shape[1]} features"
    yield from _sized(call, given, -1, weight.shape[1], why)
    yield from _typed(call, given, weight)


def _convolution(call: Call) -> Iterator[Want]:
    given, weight = call.argument(0, "input"), call.argument(1, "weight")
    if not (_is_tensor(given) and _is_tensor(weight)):
        return
    transposed = "transpose" in call.name
    groups = call.argument(7 if transposed else 6, "groups")
    groups = groups if isinstance(groups, int) else 1
    channels = weight.shape[0] if transposed else weight.shape[1] * groups
    paths, rank = call.origins(given), weight.dim()
    why = f"{_layer(call.name)} wants {channels} channels"
    if given.dim() != rank:
        yield Want("rank", rank, given.dim(), paths=paths, why=why)
    else:
        yield from _sized(call, given, 1, channels, why)
    yield Want("larger", paths=paths, why="the layers want more room")
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
        for axis, size in zip(range(-len(wanted), 0), wanted):
            yield from _sized(call, given, axis, int(size), f"the norm wants {size} features")


def _batch_normalised(call: Call) -> Iterator[Want]:
    given, mean = call.argument(0, "input"), call.argument(1, "running_mean")
    if _is_tensor(given) and _is_tensor(mean) and given.dim() > 1:
        yield from _sized(call, given, 1, mean.shape[0], f"the norm wants {mean.shape[0]} channels")


def _class_loss(call: Call) -> Iterator[Want]:
    given, target = call.argument(0, "input"), call.argument(1, "target")
    if not (_is_tensor(given) and _is_tensor(target)) or given.dim() == 0:
        return
    classes = given.shape[1 if given.dim() > 1 else 0]
    shape = (given.shape[0], *given.shape[2:]) if given.dim() > 1 else ()
    why = f"the loss wants classes below {classes}"
    yield Want("shape", classes, dtype="int64", shape=tuple(shape), paths=call.origins(target), why=why)
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
            why = "the loss wants both sides alike"
            yield Want("shape", dtype=dtype, shape=tuple(other.shape), paths=paths, why=why)


def _product(call: Call) -> Iterator[Want]:
    pair = call.tensors()[:2]
    if len(pair) < 2 or not (pair[0].dim() and pair[1].dim()):
        return
    one, other = pair
    inner = other.shape[-2 if other.dim() > 1 else 0]
    why = "the product wants equal inner sizes"
    if one.shape[-1] != inner:
        yield from _sized(call, one, -1, inner, why)
        yield from _sized(call, other, -2 if other.dim() > 1 else 0, one.shape[-1], why)
    yield from _typed(call, one, other)
    yield from _typed(call, other, one)


def _viewed(call: Call) -> Iterator[Want]:
    given = call.argument(0, "input")
    sizes = [size for size in (*call.arguments[1:], *call.keywords.values())]
    sizes = list(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
    if not (_is_tensor(given) and given.dim() and all(type(size) is int for size in sizes)):
        return
    wanted = 1
    for size in sizes:
        wanted *= size if size != -1 else 1
    paths, batch = call.origins(given), given.shape[0]
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
    **dict.fromkeys("gather index_select __getitem__ scatter scatter_ one_hot".split(), _gathered),
}


def _sized(call: Call, given: torch.Tensor, axis: int, want: int, why: str) -> Iterator[Want]:
    if -given.dim() <= axis < given.dim() and given.shape[axis] != want:
        yield Want("size", want, given.shape[axis], paths=call.origins(given), why=why)


def _typed(call: Call, given: torch.Tensor, other: torch.Tensor) -> Iterator[Want]:
    if given.dtype != other.dtype:
        name = _name(other.dtype)
        yield Want("dtype", dtype=name, paths=call.origins(given), why=f"it meets {name}")


def _by_dtype(call: Call) -> Iterator[Want]:
    """Ask for the dtypes that the operation could want: that of its other tensors, then any."""
    for tensor in call.tensors():
        paths = call.origins(tensor)
        if not paths:
            continue
        for dtype in ("float32", "int64", "bool"):
            if _name(tensor.dtype) != dtype and _speaks_of_dtype(call):
                yield Want("dtype", dtype=dtype, paths=paths, why=f"{call.name} wants {dtype}")


def _speaks_of_dtype(call: Call) -> bool:
    return call.name not in ("view", "reshape", "cat", "stack", "unflatten")


def _layer(name: str) -> str:
    return {"conv": "Conv"}.get(name[:4], name[:4]) + (
        f"Transpose{name[-2:]}" if "transpose" in name else name[4:]
    )


def _name(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


# -- the words ---------------------------------------------------------------------------------------------------

_SIZES = tuple(
    (re.compile(pattern), order)
    for pattern, order in (
        (r"mat1 and mat2 shapes cannot be multiplied \(\d+x(?P<got>\d+) and (?P<want>\d+)x\d+\)", "got"),
        (r"size of tensor a \((?P<got>\d+)\) must match the size of tensor b \((?P<want>\d+)\)", "both"),
        (r"expecting embedding dimension of (?P<want>\d+), but got (?P<got>\d+)", "got"),
        (r"must be equal to input_size\. Expected (?P<want>\d+), got (?P<got>\d+)", "got"),
        (r"to have (?P<want>\d+) channels, but got (?P<got>\d+) channels", "got"),
        (r"except in dimension \d+\. Expected size (?P<want>\d+) but got size (?P<got>\d+)", "both"),
        (r"number of channels in input to be divisible by num_groups.*input of shape \[\d+, (?P<got>\d+).*"
         r"num_groups=(?P<multiple>\d+)", "got"),
        (r"can't divide axis of length (?P<got>\d+) in chunks of (?P<multiple>\d+)", "got"),
        (r"Expected size for first two dimensions of batch2 tensor to be: \[\d+, (?P<got>\d+)\] but got: "
         r"\[\d+, (?P<want>\d+)\]", "both"),
        (r"[Ee]xpect(?:ed|ing|s)?\b[^.;]*?\b(?P<want>\d+)\b[^.;]*?\b(?:got|received|found|was)\b\D*?(?P<got>\d+)\b",
         "got"),
        (r"(?P<got>\d+) (?:!=|does not match|is not equal to|vs\.?) (?P<want>\d+)", "both"),
        (r"[Ii]nput.*?\((?P<got>\d+)\S*\).*?model.*?\((?P<want>\d+)\S*\)", "got"),
        (r"\b(?P<got>\d+) (?:is not|not|must be) divisible by (?:\D{0,20})(?P<multiple>\d+)", "got"),
    )
)  # fmt: skip
_RANKS = tuple(
    map(
        re.compile,
        (
            r"[Ee]xpected (?P<want>\d)D(?: \(unbatched\) or (?P<more>\d)D \(batched\))? input",
            r"[Ee]xpected (?:\w+ to be )?(?P<want>\d)D or (?P<more>\d)D (?:input|tensor)?",
            r"[Ee]xpected (?P<want>\d)D or (?P<more>\d)D, got",
            r"input (?:tensor )?must have (?P<want>\d) dimensions",
            r"[Ee]xpected input to be (?P<want>\d)D",
            r"[Ee]xpected (?P<want>\d) dims\. Received (?P<got>\d)-dim",
            r"[Ee]xpected (?:a )?(?P<want>\d)-?[dD]",
            r"[Ww]rong shape: expected >=(?P<want>\d) dims",
            r"not enough values to unpack \(expected (?:at least )?(?P<want>\d), got (?P<got>\d)\)",
            r"number of dimensions in the tensor input does not match .* i\.e\. input\.dim\(\) = (?P<got>\d) is not equal "
            r"to len\(dims\) = (?P<want>\d)",
            r"batch1 must be a (?P<want>\d)D tensor",
            r"must be a (?P<want>\d)D? tensor",
        ),
    )
)
_DIM_RANGE = re.compile(r"Dimension out of range \(expected to be in range of \[-(?P<rank>\d), \d\], but got (?P<dim>-?\d)\)")
_TOO_MANY_INDICES = re.compile(r"too many indices for tensor of dimension (?P<rank>\d)")
_TOO_MANY = re.compile(r"too many values to unpack \(expected (?P<want>\d)")
_INDEX = re.compile(r"index (?P<got>-?\d+) is out of bounds for dimension (?P<dim>\d) with size (?P<size>\d+)")
_SMALL = re.compile(
    r"Kernel size can't be greater|Output size is too small|[Pp]adding size should be less|too small|"
    r"Expected more than 1 (?:value|spatial)|should be at least|smaller than|non-empty|would be too"
)
_INTEGERS = re.compile(r"expected scalar type Long|type(?:s)?: Long, Int|must be Long|expected .*Long|must be long|int64 tensor")
_FLOATS = re.compile(
    r"Could not infer output dtype|only Tensors of floating point|not implemented for '(?:Long|Int|Bool)'|to be Float|"
    r"scalar type Float|floating point dtype|input dtype should be either floating|[Ff]loating point|result type Float"
)
_BOOLEANS = re.compile(r"expected.*[Bb]ool|must be bool|'~|logical_not|with dtype bool|boolean")
_DEVICES = re.compile(r"same device|device type.*(?:cuda|cpu).*(?:cpu|cuda)|torch\.cuda\.FloatTensor|on the same device")
_OUT_OF_RANGE = re.compile(r"[Tt]arget (?P<got>-?\d+) is out of bounds|index out of range|out of bounds")
_NO_ATTRIBUTE = re.compile(r"'(?P<kind>\w+)' object has no attribute '(?P<name>\w+)'")
_OF_TYPE = re.compile(
    r"'(\w+)' object is not (callable|iterable|subscriptable|an iterator)|object of type|unsupported operand|must be Tensor|"
    r"not a Module|argument of type|is not a Module subclass|indices must be|cannot be interpreted|invalid combination of arg"
    r"|not supported between|takes \d+ positional|unexpected keyword|missing \d+ required|must be real number|"
    r"a bytes-like|expected str|argument '\w+'|can't be used in 'await'|ambiguous|not a sequence|one element tensors"
)  # fmt: skip


def _by_words(failure: Failure) -> Iterator[Want]:
    text = text_of(failure.error)
    paths = _all_origins(failure.call)
    yield from _sizes(text, paths)
    for pattern in _RANKS:
        match = pattern.search(text)
        if match:
            found = match.groupdict()
            rank = int(found.get("more") or found["want"])
            yield Want("rank", rank, paths=paths, why=f"it must have {rank} dimensions")
            break
    yield from _dimensions(text, paths)
    if _SMALL.search(text):
        yield Want("larger", paths=paths, why="the layers want more room")
    for pattern, dtype in ((_INTEGERS, "int64"), (_FLOATS, "float32"), (_BOOLEANS, "bool")):
        if pattern.search(text):
            yield Want("dtype", dtype=dtype, paths=paths, why=f"it must be {dtype}")
    if _DEVICES.search(text):
        yield Want("device", text="cuda", why="the rest is there")
    if _OUT_OF_RANGE.search(text):
        yield Want("range", 1, paths=paths, why="it is an index")
    missing = _NO_ATTRIBUTE.search(text)
    if missing or _OF_TYPE.search(text) or isinstance(failure.error, (KeyError, AttributeError, TypeError)):
        yield Want("other", text=missing["name"] if missing else "", why="")


def _sizes(text: str, paths: Optional[frozenset[Path]]) -> Iterator[Want]:
    for pattern, order in _SIZES:
        match = pattern.search(text)
        if match is None:
            continue
        found = match.groupdict()
        got, want = int(found["got"]), int(found.get("want") or found.get("multiple") or 0)
        why = f"{want} must be there" if not found.get("multiple") else f"it must be divisible by {want}"
        multiple = bool(found.get("multiple"))
        yield Want("size", want, got, multiple, paths=paths, why=why)
        if order == "both":
            yield Want("size", got, want, paths=paths, why=why)
        return


def _dimensions(text: str, paths: Optional[frozenset[Path]]) -> Iterator[Want]:
    match = _DIM_RANGE.search(text)
    if match:
        rank, dim = int(match["rank"]), int(match["dim"])
        yield Want("rank", dim + 1 if dim >= 0 else -dim, rank, paths=paths, why="that dimension must be there")
    match = _TOO_MANY_INDICES.search(text)
    if match:
        yield Want("rank", int(match["rank"]) + 1, int(match["rank"]), paths=paths, why="it is indexed so")
    match = _TOO_MANY.search(text)
    if match:
        yield Want("rank", int(match["want"]), paths=paths, why=f"it is unpacked into {match['want']} names")
    match = _INDEX.search(text)
    if match:
        size = int(match["size"])
        want = int(match["got"]) + 1 if int(match["got"]) >= 0 else -int(match["got"])
        yield Want("size", want, size, paths=paths, why=f"index {match['got']} is read")
        yield Want("range", size, paths=None, why=f"it indexes {size} rows")


def _all_origins(call: Optional[Call]) -> Optional[frozenset[Path]]:
    found = call.origins(call.tensors()) if call is not None else frozenset()
    return found or None


_Pair = Tuple[int, int]

__all__ = ["Mismatch", "Want", "wants"]
