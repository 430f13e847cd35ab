"""What iterating, indexing and unpacking objects gives: batches of a loader, modules of a container."""

from __future__ import annotations

import ast
from dataclasses import replace

from drygrad.static.facts.frame import Frame
from drygrad.static.facts.values import (
    UNKNOWN,
    Object,
    Origin,
    Sequence,
    Tensor,
    Value,
    element_of,
    told_apart,
)

_LOADERS = frozenset({"torch.utils.data.DataLoader"})


def element(frame: Frame, iterable: Value, node: ast.expr) -> Value:
    """Return what is known of each item that iterating over a value yields."""
    match iterable:
        case Sequence():
            return element_of(iterable)
        case Tensor():
            return unpacked(iterable)
        case Object():
            return _iterated(frame, iterable, node)
        case _:
            return UNKNOWN


def contained_modules(owner: Object) -> Sequence | None:
    """Return the modules of an ``nn.Sequential`` or ``nn.ModuleList`` in order; None for anything else."""
    if owner.type == "torch.nn.Sequential":
        return Sequence("list", owner.arguments.positional) if owner.arguments.complete else Sequence("list")
    if owner.type == "torch.nn.ModuleList":
        given = owner.arguments.get("modules", 0)
        return given if isinstance(given, Sequence) else Sequence("list")
    return None


def _iterated(frame: Frame, owner: Object, node: ast.expr) -> Value:
    """Return what iterating over an object yields."""
    if owner.type in _LOADERS:
        return _batch(frame, owner, node)
    modules = contained_modules(owner)
    if modules is not None:
        return frame.module.item(owner, UNKNOWN)
    return UNKNOWN


def _batch(frame: Frame, loader: Object, node: ast.expr) -> Value:
    """Return a batch: of a TensorDataset's known tensors, else of unknown tensors on the CPU."""
    dataset = loader.arguments.get("dataset", 0)
    if loader.arguments.get("collate_fn", 6) is not None and loader.arguments.complete:
        return UNKNOWN
    if isinstance(dataset, Object) and dataset.type == "torch.utils.data.TensorDataset":
        held = dataset.arguments.positional
        if held and all(isinstance(v, Tensor) for v in held):
            return Sequence("list", tuple(_sample(v, node) for v in held if isinstance(v, Tensor)))
    return Object("batch", node, device="cpu" if loader.arguments.complete else None)


def _sample(tensor: Tensor, node: ast.expr) -> Tensor:
    shape = None if tensor.shape is None or not tensor.shape else (None, *tensor.shape[1:])
    return Tensor(
        shape,
        tensor.dtype,
        tensor.device,
        tensor.requires_grad,
        origin=Origin("batch", node, (tensor,)),
        range=tensor.range.picked() if tensor.range is not None else None,
    )


def batch_item(owner: Object) -> Value:
    """Return ``batch[key]``: what a loader collates are tensors, mostly; nested and other data stay unknown."""
    if owner.type != "batch" or owner.node is None:
        return UNKNOWN
    origin = Origin("batch", owner.node)
    return Tensor(device=owner.device, requires_grad=False, leaf=True, origin=origin, storage=None)


def unpacked(value: Value) -> Value:
    """Return what each target of ``a, b = value`` is bound to."""
    if isinstance(value, Object):
        return batch_item(value)
    if isinstance(value, Tensor):
        shape = value.shape[1:] if value.shape else None
        return told_apart(replace(value, shape=shape))
    return UNKNOWN
