"""Sizes that do not fit: whether the code expects it, and what was flattened before a layer."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from math import prod

from drygrad.static.facts.events import ShapeMismatch
from drygrad.static.facts.values import Constant, Shape, Tensor

_SAME_SHAPE = frozenset(
    "relu relu6 leaky_relu elu gelu silu selu celu mish tanh sigmoid hardtanh hardswish softplus dropout "
    "alpha_dropout batch_norm contiguous clone to float half double bfloat16 cuda cpu detach identity".split()
)
_FLATTENING = frozenset({"flatten", "view", "reshape"})


@dataclass(frozen=True)
class Flattened:
    """What a linear layer gets: (N, C, H, W) laid out as rows of ``features``."""

    sizes: tuple[int, ...]
    features: int
    node: ast.expr

    @property
    def product(self) -> str:
        """The sizes as a product, to show where the number comes from."""
        return " * ".join(map(str, self.sizes))


def flattened(event: ShapeMismatch) -> Flattened | None:
    """Return what is flattened before the linear layer of a mismatch, or by its view; None for any other mismatch."""
    if event.kind == "view":
        return _laid_out(event)
    value = event.values[0] if event.values else None
    if event.kind != "linear" or event.call is None or event.call.module is None or not isinstance(value, Tensor):
        return None
    features = value.shape[-1] if value.shape else None
    origin = value.origin
    while origin is not None and origin.operation in _SAME_SHAPE and origin.operands:
        source = origin.operands[0]
        origin = source.origin if isinstance(source, Tensor) else None
    source = origin.operands[0] if origin is not None and origin.operands else None
    if origin is None or origin.operation not in _FLATTENING or not isinstance(source, Tensor):
        return None
    sizes = _trailing(source.shape, features)
    return Flattened(sizes, prod(sizes), origin.node) if sizes is not None else None


def _laid_out(event: ShapeMismatch) -> Flattened | None:
    """Read ``x.view(-1, 400)`` of (N, C, H, W): rows meant for the samples."""
    match event.call.values if event.call is not None else ():
        case (Tensor(shape=(_, *sizes)), Constant(value=-1), Constant(value=int())) if len(sizes) > 1:
            known = tuple(size for size in sizes if isinstance(size, int))
            return Flattened(known, prod(known), event.node) if len(known) == len(sizes) else None
        case _:
            return None


def _trailing(shape: Shape | None, features: object) -> tuple[int, ...] | None:
    """Return the last sizes of a shape whose product is the number of features."""
    known = [size for size in (shape or ())[1:] if isinstance(size, int)]
    sizes = tuple(known) if shape and len(known) == len(shape) - 1 and len(known) > 1 else None
    return sizes if sizes is not None and prod(sizes) == features else None
