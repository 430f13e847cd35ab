"""Which operation computed a tensor's values."""

from __future__ import annotations

from drygrad.static.facts.values import Origin, Tensor

RELAYOUTS = frozenset(
    "view view_as reshape reshape_as squeeze unsqueeze flatten ravel permute transpose t movedim contiguous clone "
    "expand to float double half bfloat16 getitem detach".split()
)
"""Operations that leave the values as they are: they move them, convert them or pick some."""
LOGITS = frozenset(
    "linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d bilinear addmm".split()
)
"""Operations whose results are unbounded numbers."""


def maker(tensor: Tensor | None) -> Origin | None:
    """Return the operation that computed a tensor's values, its layout and dtype aside; None where paths differ."""
    origin = tensor.origin if tensor is not None else None
    while origin is not None and origin.operation in RELAYOUTS:
        source = origin.operands[0] if origin.operands else None
        origin = source.origin if isinstance(source, Tensor) else None
    return origin
