"""What an error asks of the inputs, read from its words."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator
from typing import Any

from drygrad.worker.errors import text_of
from drygrad.worker.search.nodes import Path
from drygrad.worker.search.trial import Call, Failure
from drygrad.worker.search.want import Want

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
        (r"(?:must|should) (?:have the same|be the same|be equal|match)\b.*?(?<![\w.])(?P<got>\d+)(?![\w.]).*?"
         r"(?<![\w.])(?P<want>\d+)(?![\w.])", "both"),
        (r"must be (?:batches of )?square matrices, but they are (?P<got>\d+) by (?P<want>\d+)", "both"),
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
            r"number of dimensions in the tensor input does not match .*input\.dim\(\) = (?P<got>\d) is not equal "
            r"to len\(dims\) = (?P<want>\d)",
            r"number of subscripts in the equation \((?P<want>\d)\) does not match the number of dimensions",
            r"number of sizes provided \((?P<want>\d)\) must be greater or equal to the number of dimensions",
            r"batch1 must be a (?P<want>\d)D tensor",
            r"must be a (?P<want>\d)D? tensor",
        ),
    )
)
_DIM_RANGE = re.compile(
    r"Dimension out of range \(expected to be in range of \[-(?P<rank>\d), \d\], but got (?P<dim>-?\d)\)"
)
_TOO_MANY_INDICES = re.compile(r"too many indices for tensor of dimension (?P<rank>\d)")
_TOO_MANY = re.compile(r"too many values to unpack \(expected (?P<want>\d)")
_ROOM = 16
_INDEX = re.compile(r"index (?P<got>-?\d+) is out of bounds for (?:dimension|axis) (?P<dim>\d) with size (?P<size>\d+)")
_SMALL = re.compile(
    r"Kernel size can't be greater|Output size is too small|[Pp]adding size should be less|too small|"
    r"Expected more than 1 (?:value|spatial)|should be at least|smaller than|non-empty|would be too"
)
_INTEGERS = re.compile(
    r"object cannot be interpreted as an integer|expected scalar type Long|type(?:s)?: Long, Int|must be Long|"
    r"expected .*Long|must be long|int64 tensor"
)
_FLOATS = re.compile(
    r"Could not infer output dtype|only Tensors of floating point|not implemented for '(?:Long|Int|Bool)'|to be Float|"
    r"scalar type Float|floating point dtype|input dtype should be either floating|[Ff]loating point|result type Float"
)
_COMPLEX = re.compile(r"non-complex|only supported for (?:inputs of )?complex|complex (?:input|tensor|dtype)")
_BOOLEANS = re.compile(r"expected.*[Bb]ool|must be bool|'~|logical_not|with dtype bool|boolean")
_DEVICES = re.compile(
    r"same device|device type.*(?:cuda|cpu).*(?:cpu|cuda)|torch\.cuda\.FloatTensor|on the same device"
)
_OUT_OF_RANGE = re.compile(r"[Tt]arget (?P<got>-?\d+) is out of bounds|index out of range|out of bounds")
_NO_ATTRIBUTE = re.compile(r"'(?P<kind>\w+)' object has no attribute '(?P<name>\w+)'")
_OF_TYPE = re.compile(
    r"'(\w+)' object is not (callable|iterable|subscriptable|an iterator)|object of type|"
    r"unsupported operand|must be Tensor|"
    r"not a Module|argument of type|is not a Module subclass|indices must be|cannot be interpreted|"
    r"invalid combination of arg"
    r"|not supported between|takes \d+ positional|unexpected keyword|missing \d+ required|must be real number|"
    r"a bytes-like|expected str|argument '\w+'|can't be used in 'await'|ambiguous|not a sequence|one element tensors"
)  # fmt: skip


_STATE = re.compile(r"Expected hidden(?:\[\d\])? size \((?P<want>[\d, ]+)\), got \[(?P<got>[\d, ]+)\]")
_SAMPLE = re.compile(
    r"not broadcastable with batch_shape\+event_shape: torch\.Size\(\[(?P<got>[\d, ]+)\]\) vs "
    r"torch\.Size\(\[(?P<want>[\d, ]+)\]\)"
)
_SCALAR = re.compile(
    r"a Tensor with \d+ elements cannot be converted to Scalar|only one element tensors can be|"
    r"only (?:length-1|0-dimensional|size-1) arrays can be converted|setting an array element with a sequence"
)
_STORED = re.compile(
    r"could not broadcast input array from shape \((?P<got>[\d, ]*)\) into shape \((?P<want>[\d, ]*)\)"
)
_INTERVAL = re.compile(r"support \(IntegerInterval\(lower_bound=0, upper_bound=(?P<high>\d+)\)\)")
_POSITIVE = re.compile(
    r"(?:constraint|support) \(?(?:GreaterThan(?:Eq)?\(lower_bound=0|Interval\(lower_bound=0|Simplex)"
)
_DEFINITE = re.compile(r"not positive-definite|constraint (?:PositiveDefinite|LowerCholesky|PositiveSemidefinite)")


def by_words(failure: Failure) -> Iterator[Want]:
    """Yield what an error's words ask for."""
    text = text_of(failure.error)
    paths = all_origins(failure.call)
    state = _STATE.search(text)
    if state is not None:
        want, got = (tuple(map(int, re.findall(r"\d+", state[name]))) for name in ("want", "got"))
        yield Want("shape", dtype="float32", shape=want, old=got, why="it is the state of a recurrent layer")
    sample = _SAMPLE.search(text)
    if sample is not None:
        want, got = (tuple(map(int, re.findall(r"\d+", sample[name]))) for name in ("want", "got"))
        for dtype, high in (("int64", 2), ("float32", 0)):
            yield Want("shape", high, dtype=dtype, shape=want, old=got, why="a distribution draws such values")
    if _SCALAR.search(text):
        yield Want("rank", 0, 1, paths=paths or named_in_line(failure), why="it becomes a single number")
    stored = _STORED.search(text)
    if stored is not None:
        got, want = (tuple(map(int, re.findall(r"\d+", stored[name]))) for name in ("got", "want"))
        paths_there = named_in_line(failure)
        yield Want("shape", dtype="float32", shape=want, old=got, paths=paths_there, why="it is stored in an array")
    yield from _supported(failure, text, paths)
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
        yield Want("larger", paths=paths, why="the layers need a larger input")
    dtypes = ((_INTEGERS, "int64"), (_FLOATS, "float32"), (_BOOLEANS, "bool"), (_COMPLEX, "complex64"))
    for pattern, dtype in dtypes:
        if pattern.search(text):
            yield Want("dtype", dtype=dtype, paths=paths, why=f"it must be {dtype}")
    if "between 0 and 1" in text:
        yield Want("unit", paths=paths, why="the loss expects probabilities")
    if _DEVICES.search(text):
        yield Want("device", text="cuda", why="the other operands are there")
    if _OUT_OF_RANGE.search(text):
        yield Want("range", 1, paths=paths, why="it is an index")
    missing = _NO_ATTRIBUTE.search(text)
    if missing or _OF_TYPE.search(text) or isinstance(failure.error, (KeyError, AttributeError, TypeError)):
        named = named_in_line(failure)
        if named is not None and _OF_TYPE.search(text):
            yield Want("other", paths=named, why="")
        yield Want("other", text=missing["name"] if missing else "", why="")


def _supported(failure: Failure, text: str, paths: frozenset[Path] | None) -> Iterator[Want]:
    """Yield what a distribution or a factorisation asks of the values that it gets."""
    places = paths or held(failure)
    whole = _INTERVAL.search(text)
    if whole is not None:
        high = int(whole["high"]) + 1
        yield Want("dtype", high, dtype="int64", paths=places, why=f"its values are below {high}")
        yield Want("range", high, paths=places, why=f"its values are below {high}")
    if _POSITIVE.search(text):
        yield Want("unit", paths=places, why="it must be positive")
    if _DEFINITE.search(text):
        yield Want("definite", paths=places, why="it must be positive-definite")


def held(failure: Failure) -> frozenset[Path] | None:
    """Return the parts of the inputs that the function has that raised; None where it has none as they were made."""
    for trace in failure.frames()[:1]:
        paths = [failure.path_of(value) for value in trace.tb_frame.f_locals.values() if value is not None]
        return frozenset(path for path in paths if path is not None) or None
    return None


def _sizes(text: str, paths: frozenset[Path] | None) -> Iterator[Want]:
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


def _dimensions(text: str, paths: frozenset[Path] | None) -> Iterator[Want]:
    match = _DIM_RANGE.search(text)
    if match:
        rank, dim = int(match["rank"]), int(match["dim"])
        yield Want("rank", dim + 1 if dim >= 0 else -dim, rank, paths=paths, why="it needs that dimension")
    match = _TOO_MANY_INDICES.search(text)
    if match:
        yield Want("rank", int(match["rank"]) + 1, int(match["rank"]), paths=paths, why="it is indexed this way")
    match = _TOO_MANY.search(text)
    if match:
        yield Want("rank", int(match["want"]), paths=paths, why=f"it is unpacked into {match['want']} names")
    match = _INDEX.search(text)
    if match:
        size = int(match["size"])
        want = int(match["got"]) + 1 if int(match["got"]) >= 0 else -int(match["got"])
        yield Want("size", want, size, paths=paths, why=f"index {match['got']} is read")
        yield Want("size", _ROOM * size, size, paths=paths, why=f"index {match['got']} is read")
        yield Want("range", size, paths=None, why=f"it indexes {size} rows")


def named_in_line(failure: Failure) -> frozenset[Path] | None:
    """Return the parts of the inputs that the line names in which an error was raised; None where it names none."""
    for trace in failure.frames()[:1]:
        line = linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        there = trace.tb_frame.f_locals
        values = [there.get(name) for name in re.findall(r"[A-Za-z_]\w*", line)]
        values += [_held(there.get(owner), name) for owner, name in re.findall(r"\b([A-Za-z_]\w*)\.(\w+)", line)]
        paths = [failure.path_of(value) for value in values if value is not None]
        return frozenset(part for path in paths if path is not None for part in (path, (*path, "value"))) or None
    return None


def _held(owner: Any, name: str) -> Any:
    """Return what an object holds under a name, without running any code of the user's."""
    own: Any = getattr(owner, "__dict__", None)
    if not isinstance(own, dict):
        return None
    held: dict[str, Any] = {**own}
    for place in ("_modules", "_parameters", "_buffers"):
        held = {**(held.get(place) or {}), **held}
    return held.get(name)


def all_origins(call: Call | None) -> frozenset[Path] | None:
    """Return the parts of the inputs that any tensor of a call came from; None where that is not known."""
    return (call.origins([*call.arguments, *call.keywords.values()]) or None) if call is not None else None
