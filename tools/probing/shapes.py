"""The shapes that an operation makes of its operands', where a simple rule fits all that was tried."""

# pyright: basic

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from probing.deciding import Observation
from probing.keeping import outputs_of
from probing.samples import Sample


def observe(sample: Sample, returns: frozenset[int]) -> tuple[Observation | None, Observation]:
    """Return the rules that tell the shape of a call's result, and what kind of thing it gives.

    ``returns`` are the numbers of results that the dispatcher knows the operation by.
    """
    try:
        result = sample.run()
    except Exception:  # noqa: BLE001 - whatever torch refuses tells nothing
        return None, (sample.features, ("refused",))
    made = outputs_of(result)
    structure = (sample.features, tuple(_structures(sample, result, made, returns)))
    if made is None:
        return None, structure
    return (sample.features, tuple(_rules(sample, tuple(made[0].shape)) if len(made) == 1 else ())), structure


def _structures(sample: Sample, result: Any, made: list[torch.Tensor] | None, returns: frozenset[int]) -> Iterator[str]:
    if made is None:
        yield "other"
    elif isinstance(result, torch.Tensor):
        yield "tensor"
    else:
        asked = any(name.startswith("return_") for name in sample.features)
        named = isinstance(result, tuple) and type(result) is not tuple
        if named or (isinstance(result, tuple) and len(made) > 1 and (len(made) in returns or asked)):
            yield f"{len(made)}"
        yield "many"


def _rules(sample: Sample, shape: tuple[int, ...]) -> Iterator[str]:
    operands = {name: tuple(tensor.shape) for name, tensor in sample.operands().items()}
    names = list(operands)
    for chosen in (names, names[:2], names[:3]):
        try:
            met = tuple(torch.broadcast_shapes(*(operands[name] for name in chosen)))
        except RuntimeError:
            continue
        if len(chosen) > 1 and met == shape:
            yield "broadcast:" + ("*" if chosen is names else ",".join(chosen))
    for name in names:
        if operands[name] == shape:
            yield f"same:{name}"
    if shape == ():
        yield "scalar"
    yield from _reductions(sample, operands, shape)


def _reductions(sample: Sample, operands: dict[str, tuple[int, ...]], shape: tuple[int, ...]) -> Iterator[str]:
    named = dict(sample.named())
    first = operands.get(next(iter(named), ""))
    if first is None:
        return
    kept = named.get("keepdim", False)
    for name, default in (("dim", None), ("dim", -1), ("dim", 0)):
        dims = named.get(name, default)
        chosen = range(len(first)) if dims is None else [dims] if isinstance(dims, int) else dims
        if not isinstance(chosen, (range, list, tuple)):
            continue
        if not isinstance(kept, bool) or not all(isinstance(d, int) and -len(first) <= d < len(first) for d in chosen):
            continue
        gone = {d % len(first) for d in chosen}
        sizes = [1 if d in gone else size for d, size in enumerate(first) if kept or d not in gone]
        if tuple(sizes) == shape:
            yield f"reduce:{'all' if default is None else default}"
