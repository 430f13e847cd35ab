"""Shapes by the rules that torch was found to follow, where no rule is written here."""

from __future__ import annotations

from drygrad.static.facts.forms import Asked, asked
from drygrad.static.facts.shapes.core import Unknown, broadcast
from drygrad.static.facts.shapes.reading import integer_of, items_of, operand_shape, shape_of
from drygrad.static.facts.shapes.reductions import reduced
from drygrad.static.facts.values import NONE, Constant, Sequence, Shape, Tensor, TorchCall


def told_shape(call: TorchCall) -> Shape | None:
    """Return the shape of a call's one result."""
    known = asked(call.operation, call.values, call)
    rule = known.op.shape(known.form) if known is not None else None
    if known is None or not isinstance(rule, str):
        return None
    kind, _, names = rule.partition(":")
    match kind:
        case "scalar":
            return ()
        case "same":
            return shape_of(known.argument(names) or NONE)
        case "broadcast":
            return _broadcast(known, names)
        case _:
            return _reduced(known, None if names == "all" else int(names))


def _broadcast(known: Asked, names: str) -> Shape | None:
    if names != "*":
        return broadcast(*(operand_shape(known.argument(name) or NONE) for name in names.split(",")))
    shapes: list[Shape] = []
    for value in known.arguments.values():
        if isinstance(value, Tensor):
            shapes.append(shape_of(value))
        elif isinstance(value, Sequence) or not isinstance(value, Constant):
            raise Unknown  # it may be, or hold, a tensor
    return broadcast(*shapes)


def _reduced(known: Asked, default: int | None) -> Shape:
    first = shape_of(next(iter(known.arguments.values()), NONE))
    dim, keepdim = known.arguments.get("dim", NONE), known.arguments.get("keepdim", Constant(False))
    if not isinstance(keepdim, Constant):
        raise Unknown
    if dim == NONE:
        dims = None if default is None else (default,)
    else:
        dims = tuple(map(integer_of, items_of(dim))) if isinstance(dim, Sequence) else (integer_of(dim),)
    return reduced(first, dims, bool(keepdim.value))
