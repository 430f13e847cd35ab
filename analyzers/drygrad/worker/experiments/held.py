"""The tensors among the inputs of a target, with how it writes them, and what their values show of what is legal."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from drygrad.worker.experiments.relation import NotTried
from drygrad.worker.naming import within
from drygrad.worker.reading import extremes, is_readable, quietly

_DEPTH, _MOST, _LARGEST = 2, 8, 1 << 22
_CLOSE = 1e-4
_LARGEST_MAP = 4
"""The most rows of a square matrix that is taken for a map of space if no element is 0."""
_FAR_FROM_ZERO = 0.05
_NO_LESS_THAN_ZERO = (0.0, math.inf)
_RANGES = ((0.0, 1.0), (-1.0, 1.0), _NO_LESS_THAN_ZERO)
"""What values are usually kept within: probabilities and images, cosines and what is normalised, counts and sizes."""
_SATURATING = ("Sigmoid", "Softmax")
_BOUNDED = ("Tanh", "Div", "Sin", "Cos", "Clamp", "Erf", "Hardtanh", "Softsign")
_POSITIVE = re.compile(
    r"(^|_|\.)(sigmas?|stds?|stdev|scales?|vars?|variances?|eps|epsilon|temp|temperature|tau|bandwidth|length_?scales?|"
    r"radius|radii|focal|sizes?|widths?|heights?|denom|denominator|precisions?|concentrations?|rates?|df|freqs?|"
    r"periods?|masses|mass|covs?|covariances?|diag|chol|tril|alphas?|betas?|gammas?|total_count|quantiles?)\d*(\]|'|$)"
)
"""Names of what is positive by its meaning."""
_ASKS = re.compile(
    r"positive|non-?\s?zero|strictly|> ?0|invertible|non-?singular|non-?empty|normali[sz]ed|unit\b|definite|"
    r"(must|should|can|may) ?not|at least"
)


@dataclass(frozen=True)
class Held:
    """A tensor among the inputs, as the target writes it."""

    name: str
    tensor: torch.Tensor


@dataclass(frozen=True)
class Shown:
    """What the values of a tensor show of those that are legal there."""

    mask: bool = False
    """It says yes or no of each element."""
    ids: bool = False
    """It holds classes, positions, lengths."""
    zero: bool = False
    """It may hold zeros and be constant: nothing speaks against it."""
    far: bool = False
    """It may hold great numbers."""
    within: tuple[float, float] | None = None
    """The range that its values keep to, of which nothing shows that they may leave it."""
    saturates: bool = False
    """What has computed it, a sigmoid or a softmax, comes to its ends by rounding."""
    sums: int | None = None
    """The dimension along which its values sum up to one."""
    unit: int | None = None
    """The dimension of its vectors, which are of length one."""
    rotates: bool = False
    """Its matrices are rotations or reflections."""


def held_tensors(names: list[str], values: list[Any]) -> list[Held]:
    """Return the tensors that can be read among some values, each once, those in lists and objects included."""
    found: dict[int, Held] = {}
    for name, value in zip(names, values):
        for path, tensor in within(name, value, _DEPTH) if not isinstance(value, torch.nn.Module) else ():
            known = isinstance(tensor, torch.Tensor) and is_readable(tensor) and not tensor.is_complex()
            if isinstance(tensor, torch.Tensor) and known and tensor.numel() <= _LARGEST:
                found.setdefault(id(tensor), Held(path, tensor))
    return [*found.values()][:_MOST]


def require_tensors(held: Sequence[Held]) -> None:
    """Raise NotTried where there are no tensors."""
    if not held:
        raise NotTried("there are no tensors among its inputs")


def shown(held: Held, text: str) -> Shown:
    """Say what a tensor's values, its name, and the target's documentation show of what is legal."""
    tensor = held.tensor
    both = extremes(tensor)
    if both is None:
        return Shown()
    with quietly():
        two = bool(((tensor == 0) | (tensor == 1)).all())
    documented = _is_documented(held.name, text)
    if documented and not tensor.is_floating_point():
        return Shown()
    if tensor.dtype is torch.bool or (two and both == (0, 1) and tensor.dim()):
        return Shown(mask=True)
    if not tensor.is_floating_point():
        return Shown(ids=True)
    with quietly():
        return _of_floats(tensor, both, documented or bool(_POSITIVE.search(held.name.lower())))


def _of_floats(tensor: torch.Tensor, both: tuple[Any, Any], asked: bool) -> Shown:
    low, high = both
    within = next(((least, most) for least, most in _RANGES if least <= low and high <= most), None)
    if low < 0 and tensor.requires_grad and not _is_made_by(tensor, _BOUNDED):
        within = None  # what a layer gives is small at first, and nothing keeps it so
    if asked or not tensor.dim():
        return Shown(within=within or (low, high))
    saturates = _is_made_by(tensor, _SATURATING)
    if low >= 0 and (sums := _dimension_of_ones(tensor, 1)) is not None:
        return Shown(within=within, saturates=saturates, sums=sums)
    if _is_a_map(tensor):
        return Shown(within=within, rotates=_is_orthogonal(tensor))
    if (unit := _dimension_of_ones(tensor, 2)) is not None:
        return Shown(within=within, unit=unit)
    # Numbers that are all far from zero are sizes, counts or scales.
    zero = saturates or low <= _FAR_FROM_ZERO * high
    return Shown(zero=zero, far=within in (None, _NO_LESS_THAN_ZERO), within=within, saturates=saturates)


def _is_made_by(tensor: torch.Tensor, operations: tuple[str, ...]) -> bool:
    return tensor.grad_fn is not None and tensor.grad_fn.name().startswith(operations)


def _dimension_of_ones(tensor: torch.Tensor, power: int) -> int | None:
    """Return the last dimension along which the sums of the powers are all one."""
    for dim in range(-1, -tensor.dim() - 1, -1):
        sums = (tensor.double() ** power).sum(dim)
        if tensor.shape[dim] > 1 and bool((sums - 1).abs().max() < _CLOSE):
            return dim
    return None


def _is_a_map(tensor: torch.Tensor) -> bool:
    """Say whether square matrices are invertible on purpose: rotations, covariances, transforms, calibrations."""
    if tensor.dim() < 2 or tensor.shape[-1] not in (tensor.shape[-2], tensor.shape[-2] + 1) or tensor.shape[-2] < 2:
        return False
    rows = tensor.shape[-2]
    square, last = tensor[..., :rows].double(), tensor[..., -1, :].double()
    unit = torch.zeros_like(last)
    unit[..., -1] = 1
    symmetric = (square - square.mT).abs().max() < _CLOSE and bool((square.diagonal(dim1=-2, dim2=-1) > 0).all())
    full = bool((square != 0).all()) and (symmetric or (rows <= _LARGEST_MAP and tensor.dim() <= 3))
    return bool(torch.equal(last, unit) or _is_orthogonal(square) or full)


def _is_orthogonal(tensor: torch.Tensor) -> bool:
    rows = tensor.shape[-2]
    if tensor.shape[-1] != rows:
        return False
    square = tensor.double()
    identity = torch.eye(rows, dtype=torch.float64, device=tensor.device)
    return bool((square @ square.mT - identity).abs().max() < _CLOSE)


def _is_documented(name: str, text: str) -> bool:
    """Say whether a line of the documentation that has the name asks for values of a certain kind."""
    first = re.split(r"\W", name)[0].lower()
    lines = (line for line in text.lower().splitlines() if re.search(rf"\b{re.escape(first)}\b", line))
    return any(_ASKS.search(line) for line in lines)
