# pyright: basic
"""Calls of functions that torch's database of operators leaves out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch.testing._internal.opinfo.core import SampleInput


@dataclass
class Further:
    """Looks like an entry of the database: calls of a function with tensors of these sizes and other arguments."""

    name: str
    op: Callable[..., Any]
    calls: tuple[tuple[tuple[int, ...], tuple[Any, ...], dict[str, Any]], ...]
    dtypes = frozenset({torch.float32})
    inplace_variant = None
    aliases = ()

    def sample_inputs(self, device: str, dtype: torch.dtype, **_: object) -> Iterator[SampleInput]:
        """Yield the calls."""
        for size, arguments, keywords in self.calls:
            yield SampleInput(torch.rand(size, device=device, dtype=dtype), args=arguments, kwargs=keywords)


FURTHER = [
    Further(
        "nn.functional.gumbel_softmax", F.gumbel_softmax, (((3, 4), (), {}), ((5,), (), {}), ((2, 3), (0.5, True), {}))
    ),
    Further("nn.functional.fold", F.fold, (((2, 12, 9), ((4, 4), (2, 2)), {}),)),
    Further("nn.functional.affine_grid", F.affine_grid, (((2, 2, 3), ([2, 3, 4, 5],), {"align_corners": False}),)),
    Further("nn.functional.lp_pool1d", F.lp_pool1d, (((2, 3, 8), (2, 2), {}), ((2, 3, 8), (2, 2, 2), {}))),
    Further("nn.functional.lp_pool2d", F.lp_pool2d, (((2, 3, 8, 8), (2, 2), {}), ((2, 3, 8, 8), (2, 2, 2), {}))),
    Further("nn.functional.dropout1d", F.dropout1d, (((2, 3, 8), (), {}), ((2, 3, 8), (0.5, False), {}))),
    Further("nn.functional.upsample", F.upsample, (((2, 3, 8), (4,), {}), ((2, 3, 8), (None, 2), {}))),
]
