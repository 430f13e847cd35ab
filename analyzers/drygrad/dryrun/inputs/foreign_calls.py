"""What calls give of functions and classes that the project does not define: torch's, numpy's, Python's own."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from drygrad.dryrun.inputs import torch_uses
from drygrad.dryrun.inputs.usage import Usage, Value

SAME = frozenset(
    "deepcopy copy list tuple iter tqdm reversed sorted dict prepare set sample relu tanh sigmoid softmax log_softmax "
    "choices".split()
)
"""Functions that give back their argument, or something of the same form."""
_FIRST = frozenset(("next", "choice"))
_OF_SCALARS = frozenset("tensor array LongTensor FloatTensor IntTensor".split())
"""What makes a tensor or an array of plain numbers."""
_OF_ONE = frozenset("tensor as_tensor from_numpy asarray array where".split())


def read(
    node: ast.Call,
    values: Sequence[Value],
    full_name: Callable[[ast.expr], str],
    is_known_class: Callable[[ast.expr], bool],
) -> Value:
    """Return what a call gives; note what it says of its arguments."""
    called = full_name(node.func)
    last = called.rpartition(".")[2]
    torch_uses.read_call(called, node, values)
    first = values[0] if values else None
    if isinstance(first, Usage):
        if last == "isinstance":
            _check(first, node.args[1:], is_known_class)
        if last in _FIRST:
            first.kinds.add("iterated")
            return first.any_item()
    if (last in SAME or "tqdm" in last) and node.args:
        return first
    if last in _OF_SCALARS and node.args:
        _note_scalars(node.args[0], first)
    if isinstance(first, Usage) and (last in _READERS or last in _OF_ONE):
        return _READERS[last](first, node) if last in _READERS else first
    if called.startswith("torch.") and last[:1].isupper():
        return _made(called, node, values, full_name)
    return None


def _attribute(owner: Usage, node: ast.Call) -> Value:
    """Return what ``getattr`` gives, where it has no default."""
    name = node.args[1] if len(node.args) > 1 else None
    found = owner.attribute(str(name.value)) if isinstance(name, ast.Constant) else None
    return found if len(node.args) == 2 else None


def _joined(parts: Usage, node: ast.Call) -> Value:
    parts.kinds.add("list")
    return None


_READERS: dict[str, Callable[[Usage, ast.Call], Value]] = {
    "getattr": _attribute,
    "load": lambda path, node: path.method("load"),
    "stack": _joined,
    "cat": _joined,
}


def _made(called: str, node: ast.Call, values: Sequence[Value], full_name: Callable[[ast.expr], str]) -> Value:
    """Return the object of torch's that a call of its class makes."""
    torch_uses.read_constructor(called, values)
    last = called.rpartition(".")[2]
    inner, first = (node.args[0] if node.args else None), (values[0] if values else None)
    if last == "Sequential" and isinstance(inner, ast.Call):
        return Usage(made=full_name(inner.func))
    if last == "DataLoader" and isinstance(first, Usage):
        return first.loaded_by(called, is_collated=all(k.arg != "collate_fn" for k in node.keywords))
    if last in ("DataParallel", "DistributedDataParallel") and first is not None:
        return first
    return Usage(made=called)


def _check(value: Usage, kinds: Sequence[ast.expr], is_known_class: Callable[[ast.expr], bool]) -> None:
    """Take a value for an object of a class that the code asks for and knows."""
    for kind in kinds:
        asked = kind.elts if isinstance(kind, ast.Tuple) else [kind]
        known = [one for one in asked if is_known_class(one)]
        value.annotations += known[:1] if not value.annotations else []


def _note_scalars(given: ast.expr, value: Value) -> None:
    """Note that what becomes a tensor is a number, or several."""
    if isinstance(given, (ast.List, ast.Tuple)):
        parts, kind = (value if isinstance(value, tuple) else ()), "scalar"
    elif isinstance(given, ast.ListComp):
        parts, kind = ((value.item,) if isinstance(value, Usage) else ()), "scalar"
    elif isinstance(value, Usage) and value.item is not None:
        parts, kind = (value.item,), "scalar"
    else:
        parts, kind = (value,), "numbers"
    for part in parts:
        if isinstance(part, Usage):
            part.kinds.add(kind)
