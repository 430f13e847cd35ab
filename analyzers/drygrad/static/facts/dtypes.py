"""The dtype of what an operation makes: torch's own where its rule is written down here, else unknown."""

from __future__ import annotations

from drygrad.static.facts.forms import Asked, flat
from drygrad.static.facts.frame import Frame
from drygrad.static.facts.operations import (
    AUTOCAST_KEEPS,
    AUTOCAST_LOWERS,
    CASTS,
)
from drygrad.static.facts.values import (
    FLOATING,
    INTEGERS,
    NONE,
    UNKNOWN,
    Constant,
    Dtype,
    Number,
    Tensor,
    TorchCall,
    Value,
    is_unknown,
)
from drygrad.torchmodel.judgements import INDEXING, RECURRENT

_TAKES_DTYPE = frozenset("cumprod cumsum log_softmax mean nanmean nansum norm prod softmax softmin sum".split())
_TAKES_DTYPE_AT = {"softmax": 2, "log_softmax": 2, "softmin": 2, "norm": 4}
"""From which position on an argument may be the dtype; of other operations it is given by name only."""
_WIDE = frozenset({"float32", "float64"})
"""The dtypes that an operand of a usual dtype does not widen, but for float64 itself."""
_AUTOCAST_CASTS = frozenset({"float16", "bfloat16", "float32"})
"""The dtypes that autocast changes: it leaves float64 and integers alone."""
_COMPLEX = frozenset({"complex64", "complex128"})
_REAL = {"complex64": "float32", "complex128": "float64"}
_COMPLEX_OF = {"float32": "complex64", "float64": "complex128", "complex64": "complex64", "complex128": "complex128"}
_KINDS = (frozenset({"bool"}), INTEGERS, FLOATING, _COMPLEX)
"""The kinds of dtypes, from the one that gives way to all to the one that gives way to none."""
_FLOAT = 2
_CONDITION = Tensor(shape=(), dtype="bool")
"""What chooses between two values, and takes no part in their dtype."""


def result_dtype(
    frame: Frame,
    operation: str,
    tensors: tuple[Tensor, ...],
    values: tuple[Value, ...],
    call: TorchCall | None,
    known: Asked | None,
    index: int = 0,
) -> str | None:
    """Return the dtype of an operation's result; None where torch's rule is not known, or an operand's dtype."""
    if call is not None and "out" in call.keyword_values:
        out = call.keyword_values["out"]
        return out.dtype if isinstance(out, Tensor) else None
    asked = _asked_for(operation, values, call)
    if asked is not None and index == 0:
        return asked.name if isinstance(asked, Dtype) else None
    if frame.state.autocast in FLOATING and operation in AUTOCAST_LOWERS:
        sure = call is not None and call.module is not None
        return frame.state.autocast if sure or any(t.dtype in _AUTOCAST_CASTS for t in tensors) else None
    dtype = _by_rule(frame, operation, tensors, values, known, index)
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
    frame: Frame,
    operation: str,
    tensors: tuple[Tensor, ...],
    values: tuple[Value, ...],
    known: Asked | None,
    index: int,
) -> str | None:
    if operation in CASTS:
        return CASTS[operation]
    if operation in INDEXING:
        return values[0].dtype if values and isinstance(values[0], Tensor) else None
    if operation == "where" and len(values) == 1:  # the indices of what holds
        return "int64"
    if operation in RECURRENT:
        return _common_float(tensors)
    rule = known.op.dtype(index, known.form) if known is not None else None
    if known is None or not isinstance(rule, str) or rule == "asked":
        return None
    kind, _, participants = rule.partition(":")
    default = frame.module.default_dtype
    if not participants:
        return default if kind == "float32" else kind
    operands = _participants(known, participants)
    dtype = None if operands is None else _promoted(*operands, default)
    return None if dtype is None else _become(kind, dtype, default)


def _participants(known: Asked, names: str) -> tuple[tuple[Tensor, ...], list[Value]] | None:
    """Return the tensors and the numbers that decide; None where one may be hidden."""
    if names in ("*", "#", "~"):
        given = list(flat(known.arguments.values()))
    else:
        given = list(flat(value for name in names.split(",") if (value := known.arguments.get(name)) is not None))
        if len(given) < len(names.split(",")):
            return None
    tensors = tuple(value for value in given if isinstance(value, Tensor))
    if names == "~":
        tensors = tuple(tensor for tensor in tensors if tensor.dtype not in INTEGERS and tensor.dtype != "bool")
    hidden = known.hides_parameters or any(map(is_unknown, given))
    if hidden and not {tensor.dtype for tensor in tensors} <= _WIDE:
        return None
    return tensors, [v for v in given if _is_number(v)] if names != "*" else []


def _is_number(value: Value) -> bool:
    return isinstance(value, Number) or (isinstance(value, Constant) and isinstance(value.value, (int, float, complex)))


def _become(kind: str, dtype: str, default: str) -> str | None:
    """Return what a rule makes of the dtype that the operands have in common."""
    whole = dtype == "bool" or dtype in INTEGERS
    match kind:
        case "float":
            return default if whole else dtype
        case "sum":
            return "int64" if whole else dtype
        case "number":
            return "int64" if dtype == "bool" else dtype
        case "real" | "realfloat":
            return default if whole and kind == "realfloat" else _REAL.get(dtype, dtype)
        case "complex":
            return _COMPLEX_OF.get(default if whole else dtype)
        case "double":
            return "complex128" if dtype in _COMPLEX else "float64"
        case "test":
            return "uint8" if dtype == "uint8" else "bool"
        case _:
            return dtype


def _common_float(tensors: tuple[Tensor, ...]) -> str | None:
    """Return the one float dtype among the operands."""
    dtypes = {tensor.dtype for tensor in tensors}
    dtype = dtypes.pop() if len(dtypes) == 1 else None
    return dtype if dtype in FLOATING else None


# -- promotion --------------------------------------------------------------------------------------------------


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
