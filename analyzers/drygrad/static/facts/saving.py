"""What autograd keeps of its operands and results for the backward to come."""

from __future__ import annotations

import ast

from drygrad.static.facts.events import Saved
from drygrad.static.facts.forms import Asked, asked
from drygrad.static.facts.frame import Frame
from drygrad.static.facts.operations import SCATTERS
from drygrad.static.facts.parameters import has_parameters
from drygrad.static.facts.values import Constant, Number, Origin, Sequence, Tensor, TorchCall, Value

_RESULT = "out0"
_WRITTEN = "input"
_LEARNT = ("weight", "bias")


def note_saved(
    frame: Frame,
    node: ast.expr,
    operation: str,
    known: Asked | None,
    made: Tensor,
    call: TorchCall | None,
    *,
    in_place: bool = False,
) -> None:
    """Note whose content an operation keeps for its backward.

    An in-place form keeps its result, in the memory of its first operand, or other operands: never what it overwrites.
    """
    if known is None or made.requires_grad is False:
        return
    learnt = _learnt(frame, call)
    kept: dict[str, bool | None] = {}
    for place, operand, said in known.op.keeps(known.form, in_place=in_place):
        given = known.argument(operand)
        needed = learnt if given is None and operand in _LEARNT else _gradient(given)
        surely = said == "always" or (said == "ordered" and _in_order(known.argument(place)))
        if needed is not False:
            kept[place] = kept.get(place) or (True if needed and surely else None)
    for place, needed in kept.items():
        output = place == (_WRITTEN if in_place else _RESULT)
        records = True if needed and made.requires_grad else None
        entry = Saved(operation, node, "output" if output else "input", records)
        _save(frame, made if output else known.argument(place), entry)


def keeps_result(origin: Origin) -> bool:
    """Say whether the operation that made a tensor keeps it for its backward."""
    return _RESULT in _places(origin)


def keeps_tensors(origin: Origin) -> bool:
    """Say whether an operation keeps any tensor for its backward."""
    return bool(_places(origin))


def _places(origin: Origin) -> set[str]:
    """Return what an operation keeps: arguments by name, results."""
    known = asked(origin.operation, origin.operands, origin.call)
    if known is None:
        return set()
    kept = known.op.keeps(known.form)
    return {place for place, operand, said in kept if said and _gradient(known.argument(operand)) is not False}


def _learnt(frame: Frame, call: TorchCall | None) -> bool | None:
    """Say whether the weight that a call does not show requires grad: a module's own, where it is not frozen."""
    learns = has_parameters(call.module) if call is not None and call.module is not None else False
    if call is None or call.module is None or not learns:
        return learns
    return True if frame.state.grad and not call.module.frozen and not frame.module.freezes else None


def _gradient(value: Value | None) -> bool | None:
    match value:
        case None | Constant() | Number():
            return False
        case Tensor():
            return value.requires_grad
        case Sequence(items=tuple() as items):
            answers = [_gradient(item) for item in items]
            return True if True in answers else None if None in answers else False
        case _:
            return None


def _in_order(value: Value | None) -> bool:
    return not (isinstance(value, Tensor) and value.made_by(*SCATTERS))


def _save(frame: Frame, tensor: Value | None, entry: Saved) -> None:
    if not isinstance(tensor, Tensor) or tensor.storage is None:
        return
    present = frame.state.saved.get(tensor.storage, ())
    others = tuple(known for known in present if known.node is not entry.node or known.role != entry.role)
    if len(others) == len(present) or entry.records:
        frame.state.saved[tensor.storage] = (*others, entry)
