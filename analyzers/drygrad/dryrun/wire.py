"""What a worker may say: the one place where its words become values of ours.

A worker executes somebody else's code, which may write on the wire itself. So nothing is used that is not in these
tables, of its type, within its range and of a known name; a field that is added to an answer is added here, or the
answer is ``Malformed``. Text that can become a part of a fix is of a kind that is no code but what it says it is:
``DTYPE``, ``DEVICE``, ``EXPRESSION``, whole numbers.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from functools import cache
from typing import Any, Literal, NoReturn, cast, get_args

from drygrad.dryrun.schema import (
    Kind,
    Malformed,
    Optional,
    either,
    flag,
    integer,
    is_not,
    items,
    line,
    matching,
    maybe,
    number,
    one_of,
    path,
    record,
    table,
    text,
)
from drygrad.model import SEVERITIES
from drygrad.parsing import parsed_expression
from drygrad.static.registry import all_rules

Outcome = Literal[
    "passed",
    "failed",
    "deadline",
    "no-inputs",
    "blocked",
    "unsupported",
    "missing-package",
    "cancelled",
    "crashed",
    "out-of-memory",
    "error",
]
"""How a run ended: ``failed`` by an error in the user's code, ``error`` by one of ours."""

Tried = Literal["held", "not-tried", "broken"]
"""What came of trying a relation."""

DTYPES = frozenset(
    "float16 bfloat16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex32 complex64 "
    "complex128 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2 "
    "int1 int2 int3 int4 int5 int6 int7 uint1 uint2 uint3 uint4 uint5 uint6 uint7 "
    "qint8 qint32 quint8 quint4x2 quint2x4 bits1x8 bits2x4 bits4x2 bits8 bits16".split()
)
"""The dtypes of torch, as they are called behind ``torch.``."""

_MOST_DIGITS = 30
_SIZE = integer(-(1 << 63), (1 << 63) - 1)
_COUNT = integer(0, (1 << 63) - 1)
_AMOUNT = integer(0, 10**28)
"""Operations and bytes of a whole program."""
_NUMBER = number(-sys.float_info.max, sys.float_info.max)
_SECONDS = number(0, 1e9)
_LINE = integer(0, 10_000_000)
_COLUMN = integer(0, 10_000_000)

_WORDS = line(200)
"""A name, or a few words."""
_SENTENCE = text(4000)
_SHAPE = items(_SIZE, 64)

DTYPE = one_of(DTYPES, "a dtype of torch")
DEVICE = matching(
    r"(cpu|cuda|meta|mps|xpu|xla|hip|mtia|maia|hpu|ipu|ve|lazy|vulkan|privateuseone)(:\d{1,3})?", "a device of torch"
)


@cache
def _codes() -> Kind:
    return one_of([rule.code for rule in all_rules()], "the code of a rule")


def _code(value: object) -> str:
    return _codes()(value)


def _expression(value: object) -> str:
    """Take an expression in one line that is no more than one, and asks for no name that Python keeps for itself."""
    told = line(4000)(value)
    try:
        parsed_expression(told)
        parsed_expression(f"({told})")  # a comment behind it would take the bracket
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise is_not("an expression", value) from None
    others = ast.walk(parsed_expression(_without_ours(told)))
    names = (getattr(node, "id", None) or getattr(node, "attr", None) or "" for node in others)
    if told != value or any(name.startswith("__") for name in names):
        raise is_not("a plain expression in one line", value)
    return told


_OURS = re.compile(
    r"__import__\('(pathlib|tempfile|contextlib|collections|unittest\.mock)'(, fromlist=\['MagicMock'\])?\)"
    r"|__import__\('[\w.]+', fromlist=\['_'\]\)|(?<=\w)\.__new__(?=\()"
    r"|(?<=\btorch\.nn\.Module)\.__init__(?=\(made\))"
)
"""What drygrad itself proposes, and a worker sends back: modules of ours and of the workspace, objects without init."""


def _without_ours(told: str) -> str:
    """Return an expression without what drygrad itself proposes for loggers, folders, and their like."""
    return _OURS.sub(lambda found: ".new" if found[0].startswith(".") else "None", told)


EXPRESSION = _expression
_IDENTIFIER = matching(r"\*{0,2}[^\W\d]\w{0,199}", "a name")

_PLACE_FIELDS: dict[str, Kind | Optional] = {
    "path": path,
    "line": _LINE,
    "column": Optional(maybe(_COLUMN)),
    "end_line": Optional(maybe(_LINE)),
    "end_column": Optional(maybe(_COLUMN)),
}
PLACE = record(_PLACE_FIELDS)
_FRAME = record({**_PLACE_FIELDS, "function": Optional(_WORDS)})

_SIZES = either("a size or sizes", _SIZE, _SHAPE, matching(r"(-?\d{1,19}(, ?-?\d{1,19}){0,63})?", "sizes"))
_OPERAND = maybe(line(4000))
"""What the user's text calls a tensor. A fix looks it up in the text and uses what stands there."""
_BOUND = either("a number", _NUMBER, one_of(("nan", "inf", "-inf"), "a number"))
_OPERATION = maybe(_WORDS)

FACTS = record(
    {
        name: Optional(kind)
        for name, kind in {
            "operand": _OPERAND,
            "other": _OPERAND,
            "inner": _OPERAND,
            "size": _OPERAND,
            "role": maybe(_WORDS),
            "attribute": maybe(_WORDS),
            "device": DEVICE,
            "dtype": DTYPE,
            "generator": maybe(DEVICE),
            "wanted": either("a dtype, a device or sizes", DTYPE, DEVICE, _SIZES),
            "found": _SIZE,
            "shape": _SIZES,
            "other_shape": _SIZES,
            "ranks": items(_SIZE, 64),
            "position": items(_SIZE, 64),
            "is_parameter": flag,
            "made": flag,
            "cut": either("whether, or by what", flag, _OPERATION),
            "value": _BOUND,
            "low": _BOUND,
            "high": _BOUND,
            "stored": one_of(("numbers", "from 1"), "how a dataset counts"),
            "stood_in": record({"name": _WORDS, "exact": flag}),
            "loop_left": record({"line": _LINE, "for_good": flag}),
            "count": _COUNT,
            "copies": _COUNT,
            "passes": _COUNT,
            "bytes": _COUNT,
            "peak": _COUNT,
            "holder": _WORDS,
            "parameters": items(_WORDS, 10_000),
            "saver": maybe(_WORDS),
            "keeps": maybe(_WORDS),
            "write": _OPERATION,
            "infinity_meets": _WORDS,
            "relation": _code,
            "behind": flag,
            "kind": _WORDS,
            "type": _WORDS,
            "test": line(1000),
        }.items()
    }
)
"""What a fix may need to know of a fault."""

FAULT = record(
    {
        "code": _code,
        "message": _SENTENCE,
        "at": maybe(PLACE),
        "detail": Optional(maybe(text(20_000))),
        "severity": Optional(maybe(one_of(SEVERITIES, "a severity"))),
        "related": Optional(items(record({"message": _SENTENCE, "at": PLACE}), 50)),
        "facts": Optional(FACTS),
    }
)

ERROR = record(
    {"type": _WORDS, "message": _SENTENCE, "at": maybe(PLACE), "stack": Optional(items(_FRAME, 100))},
)

_INPUT = record({"name": _WORDS, "value": line(400), "source": line(1000)})
_ROW = record(
    {
        "line": _LINE,
        "name": _WORDS,
        "shape": _SHAPE,
        "dtype": DTYPE,
        "device": DEVICE,
        "low": Optional(maybe(_NUMBER)),
        "high": Optional(maybe(_NUMBER)),
        "requires_grad": Optional(flag),
    }
)
_GRADIENT = record({"name": _WORDS, "shape": _SHAPE, "norm": maybe(_NUMBER)})
_SYNC = record({"path": path, "line": _LINE, "kind": _WORDS, "op": line(1000), "count": _COUNT})
_HELD = record({"path": path, "line": _LINE, "bytes": _COUNT, "what": _WORDS})
_SAMPLE = record({"seconds": _SECONDS, "bytes": _COUNT, "phase": _WORDS})
_MEMORY = record(
    {
        "device": one_of(("cpu", "cuda"), "where memory is"),
        "peak_bytes": _COUNT,
        "reserved": Optional(maybe(_COUNT)),
        "by_phase": table(_WORDS, _COUNT, 20),
        "by_line": items(_HELD, 1000),
        "steps": items(_COUNT, 10_000),
        "over_time": items(_SAMPLE, 10_000),
    }
)
_ALLOCATED: dict[str, Kind | Optional] = {
    "path": maybe(path),
    "line": maybe(_LINE),
    "phase": _WORDS,
    "operation": _WORDS,
    "bytes": _COUNT,
}
_KEPT = record({"path": maybe(path), "line": maybe(_LINE), "operation": _WORDS})
_SHARE: dict[str, Kind | Optional] = {
    "path": maybe(path),
    "line": maybe(_LINE),
    "seconds": _SECONDS,
    "flops": _AMOUNT,
    "bytes": _AMOUNT,
    "bound": _WORDS,
    "kernels": _COUNT,
    "small_kernels": _COUNT,
}
_WAIT = {
    "path": maybe(path),
    "line": maybe(_LINE),
    "kind": _WORDS,
    "count": _COUNT,
    "bytes": _COUNT,
    "seconds": _SECONDS,
}
_BOUND_OF_TIME = record(
    {
        **{name: kind for name, kind in _SHARE.items() if name not in ("path", "line")},
        "summary": _SENTENCE,
        "of": _WORDS,
        "phases": table(_WORDS, _SECONDS, 20),
        "lines": items(record(_SHARE), 100),
        "waits": items(record(_WAIT), 100),
    }
)
_SEEN = record(
    {
        "flags": items(_WORDS, 20),
        "optimizers": items(record({"name": _WORDS, "fusible": flag, "foreach": flag}), 100),
        "blocks": items(record({"name": line(1000), "count": _COUNT, "parameters": _COUNT}), 10),
        "linear": _COUNT,
    }
)
_FORESEEN = record(
    {"at": _COUNT, "bytes": _COUNT, "phase": _WORDS, "reserved": _COUNT, "kinds": table(_WORDS, _COUNT, 20)}
)
_FORECAST = record(
    {
        "device": one_of(("cpu", "cuda"), "where memory is"),
        "peak_allocated": _COUNT,
        "peak_reserved": _COUNT,
        "context": maybe(_COUNT),
        "ranks": _COUNT,
        "communicators": _COUNT,
        "at_least": flag,
        "fits": maybe(flag),
        "peak": maybe(record(_ALLOCATED)),
        "refused": maybe(record({**_ALLOCATED, "allocated": _COUNT, "at": _COUNT})),
        "phases": table(_WORDS, _COUNT, 20),
        "kinds": table(_WORDS, _COUNT, 20),
        "by_line": items(record({"path": maybe(path), "line": maybe(_LINE), "kind": _WORDS, "bytes": _COUNT}), 1000),
        "tensors": items(
            record({**_ALLOCATED, "kind": _WORDS, "name": maybe(line(1000)), "kept_by": maybe(_KEPT), "count": _COUNT}),
            100,
        ),
        "steps": items(_COUNT, 10_000),
        "grows": maybe(record(_ALLOCATED)),
        "over_time": items(_FORESEEN, 1000),
        "peak_at": maybe(_COUNT),
        "marks": items(record({"at": _COUNT, "name": _WORDS}), 1000),
        "assumptions": items(_SENTENCE, 100),
        "time": maybe(_BOUND_OF_TIME),
        "memory": maybe(_COUNT),
        "flops": _AMOUNT,
        "changed": table(_WORDS, _COUNT, 20),
        "seen": _SEEN,
    }
)
_SPEC = record(
    {
        "name": _IDENTIFIER,
        "star": one_of(("", "*", "**"), "a star"),
        "text": EXPRESSION,
        "line": maybe(_LINE),
        "column": maybe(_COLUMN),
        "source": line(1000),
    }
)
_SEARCH = record(
    {
        "found": flag,
        "why": _SENTENCE,
        "inputs": items(_SPEC, 200),
        "independent": Optional(flag),
        "assumes": Optional(_SENTENCE),
        "trials": Optional(_COUNT),
        "seconds": Optional(_SECONDS),
        "error": Optional(ERROR),
        "through": Optional(_WORDS),
        "building": Optional(items(either("a name", _SIZE, _WORDS), 100)),
    }
)
_ELEMENTS = items(maybe(_NUMBER), 100)
_COMPARED = {"name": line(1000), "shape": _SHAPE, "elements": _ELEMENTS}
_COMPARISON = record(
    {
        "values": items(record({**_COMPARED, "line": _LINE, "number": _COUNT}), 1000),
        "state": items(record({**_COMPARED, "changed": flag}), 1000),
        "gradients": items(record(_COMPARED), 1000),
        "steps": items(record(_COMPARED), 1000),
        "written": items(line(1000), 1000),
    }
)
_EXPERIMENT = record(
    {
        "code": _code,
        "name": _WORDS,
        "outcome": one_of(get_args(Tried), "what came of an experiment"),
        "why": _SENTENCE,
        "seconds": _SECONDS,
    }
)
_FAILURE = record({"instrument": _WORDS, "error": _SENTENCE, "at": line(1000)})
_OUTPUT = record({"text": text(200_000), "cut": flag})

RESULT = record(
    {
        "outcome": one_of(get_args(Outcome), "an outcome"),
        **{
            name: Optional(kind)
            for name, kind in {
                "device": one_of(("cpu", "sim", "cuda", "auto"), "a device"),
                "seed": _SIZE,
                "torch": maybe(_WORDS),
                "python": maybe(_WORDS),
                "interpreter": maybe(line(4096)),
                "seconds": _SECONDS,
                "import_seconds": _SECONDS,
                "skipped": _COUNT,
                "way_seconds": _SECONDS,
                "faults": items(FAULT, 500),
                "error": maybe(ERROR),
                "notes": items(_SENTENCE, 500),
                "reason": maybe(_SENTENCE),
                "instrument_failures": items(_FAILURE, 100),
                "called": flag,
                "blocks": items(_LINE, 100_000),
                "blocks_elsewhere": items(record({"path": path, "lines": items(_LINE, 100_000)}), 1000),
                "backward": one_of(("target", "probe", "none"), "who called backward"),
                "inputs": items(_INPUT, 1000),
                "shapes": items(_ROW, 10_000),
                "gradients": items(_GRADIENT, 10_000),
                "reached": items(_WORDS, 100_000),
                "inplace": items(_LINE, 100_000),
                "syncs": items(_SYNC, 10_000),
                "memory": _MEMORY,
                "forecast": _FORECAST,
                "truncated": items(record({"line": _LINE, "path": maybe(path), "iterations": _COUNT}), 1000),
                "search": _SEARCH,
                "comparison": _COMPARISON,
                "experiments": items(_EXPERIMENT, 100),
                "distributed": flag,
                "ranks": _COUNT,
                "spawns": flag,
                "output": _OUTPUT,
            }.items()
        },
    }
)
"""The answer of a run."""

_REASON = text(4000)
READY = record(
    {
        "type": _WORDS,
        "pid": _COUNT,
        "torch": _WORDS,
        "python": _WORDS,
        "executable": Optional(line(4096)),
        "once": Optional(flag),
        "cuda": record(
            {
                "available": flag,
                "devices": items(_WORDS, 1000),
                "free_bytes": maybe(items(_COUNT, 1000)),
                "why": Optional(_REASON),
            }
        ),
        "sim": record({"works": maybe(flag), "why": _REASON}),
        "sandbox": table(_WORDS, either("whether, or why not", flag, _REASON), 20),
    }
)
"""What a worker says of itself when it is ready."""

_RUN = line(100)
_MESSAGES: dict[str, Kind] = {
    "ready": READY,
    "unusable": record({"type": _WORDS, "why": _REASON, "python": Optional(_WORDS), "executable": Optional(_REASON)}),
    "here": record({"type": _WORDS}),
    "wanted": record({"type": _WORDS}),
    "placed": record({"type": _WORDS, "root": line(4096)}),
    "log": record({"type": _WORDS, "text": text(20_000)}),
    "phase": record({"type": _WORDS, "run": _RUN, "phase": line(80)}),
    "interim": record({"type": _WORDS, "run": _RUN, "answer": text(64 << 20)}),
    "result": record({"type": _WORDS, "run": _RUN, "answer": text(64 << 20), "output": Optional(_OUTPUT)}),
}
"""What a worker says, and what stands beside one on another machine.

The answer of a run, and what it knows before, is its own text, which no process has read.
"""


def message(data: bytes | str) -> dict[str, Any]:
    """Return a message of a worker's. Raises Malformed."""
    value = decoded(data)
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in _MESSAGES:
        raise is_not("the type of a message", kind)
    return _MESSAGES[kind](value)


def decoded(data: bytes | str) -> dict[str, Any]:
    """Return a JSON object. Raises Malformed: also for what JSON as such does not know, and for a name given twice."""
    try:
        value: object = _DECODER.decode(data if isinstance(data, str) else data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Malformed(f"no JSON: {str(error)[:100]}") from None
    if not isinstance(value, dict):
        raise is_not("an object", value)
    return cast("dict[str, Any]", value)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is given twice")
    return found


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_whole, parse_constant=_no_number)
