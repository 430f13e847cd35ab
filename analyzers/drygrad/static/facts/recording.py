"""Whether autograd records an operation: which operands pass on to which result that they require grad."""

from __future__ import annotations

from drygrad.static.facts.forms import Asked, asked, flat
from drygrad.static.facts.frame import Frame
from drygrad.static.facts.operations import CASTS
from drygrad.static.facts.values import (
    INTEGERS,
    Constant,
    Device,
    Dtype,
    Number,
    Object,
    Sequence,
    Tensor,
    TorchCall,
    Value,
    is_unknown,
)
from drygrad.torchmodel import operations
from drygrad.torchmodel.judgements import INDEXING, RECURRENT

_MOVES = frozenset({"to", "type", "cpu", "cuda", "move", *CASTS})
_WHOLE = INTEGERS | {"bool"}
_RECORDED = INDEXING | _MOVES
"""Operations that are no single function of torch's: what they give belongs to their operand's graph."""


def requires_grad(
    frame: Frame,
    operation: str,
    tensors: tuple[Tensor, ...],
    values: tuple[Value, ...],
    dtype: str | None,
    known: Asked | None,
    index: int = 0,
) -> bool | None:
    """Say whether a result requires grad; None where that is not known."""
    if frame.state.grad is False or dtype in INTEGERS or dtype == "bool" or never_recorded(known, index):
        return False
    if any(tensor.requires_grad for tensor in tensors):
        if not frame.state.grad:
            return None
        if known is None:
            return True if operation in _RECORDED | RECURRENT or always_recorded(operation) else None
        return True if operation in _RECORDED else _passed_on(known, index)
    return False if tensors and all(t.requires_grad is False for t in tensors) and _hides_none(known, values) else None


def _hides_none(known: Asked | None, values: tuple[Value, ...]) -> bool:
    """Say whether no argument of which nothing is known may be a tensor that requires grad."""
    if known is None:
        return all(isinstance(v, (Tensor, Constant, Number, Device, Dtype, Object)) for v in flat(values))
    passed = {key.partition(" ")[0] for key in known.op.row.get("grad", {})}
    unclear = [name for name, value in known.arguments.items() if any(map(is_unknown, flat([value])))]
    return not passed.intersection(unclear)


def never_recorded(known: Asked | None, index: int = 0) -> bool:
    """Say whether a result never requires grad, whatever the operands do."""
    if known is None:
        return False
    if known.op.dtype(index, known.form) in _WHOLE:
        return True
    passed = known.op.passes_on(index, known.form)
    return bool(passed) and all(said is False for said in passed.values())


def always_recorded(operation: str) -> bool:
    """Say whether the first result requires grad wherever any operand does, in every form."""
    op = operations.named(operation)
    claims = [said for key, said in op.row.get("grad", {}).items() if key.endswith("out0")] if op is not None else []
    return bool(claims) and all(said is True for said in claims)


def cuts_graph(operation: str, operands: tuple[Value, ...], call: TorchCall | None) -> bool:
    """Say whether an operation leaves the graph behind: ``argmax``, a comparison."""
    return never_recorded(asked(operation, operands, call))


def _passed_on(known: Asked, index: int) -> bool | None:
    """Say whether an operand that requires grad passes that on; None where none surely does."""
    passed = known.op.passes_on(index, known.form)
    answers = [passed.get(name) for name, value in known.arguments.items() if _asks(value)]
    return True if True in answers else None if None in answers or not answers else False


def _asks(value: Value) -> bool:
    if isinstance(value, Sequence):
        return any(_asks(item) for item in value.items or (value.element,))
    return isinstance(value, Tensor) and value.requires_grad is not False and value.dtype not in INTEGERS
