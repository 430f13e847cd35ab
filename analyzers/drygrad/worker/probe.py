"""The backward probe: where the target returned something that requires grad and ran no backward, one follows.

The cotangents are random, not ones: the sum of a softmax or of a normalised output is constant, so that ones would
give gradients of exactly zero and hide what happens on the way. A scalar gets one, as ``loss.backward()`` gives it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, cast

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

_MOST = 64
_DEPTH = 6


def outputs(value: Any) -> list[torch.Tensor]:
    """Return the floating tensors that require grad, wherever a result holds them."""
    found: dict[int, torch.Tensor] = {}
    for tensor in tensors(value):
        if tensor.requires_grad and (tensor.is_floating_point() or tensor.is_complex()):
            found.setdefault(id(tensor), tensor)
        if len(found) == _MOST:
            break
    return list(found.values())


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors that a result holds, wherever it does."""
    return _tensors(value, _DEPTH)


def _tensors(value: Any, depth: int) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif depth and not isinstance(value, (str, bytes, torch.nn.Module)):
        for part in _parts(value):
            yield from _tensors(part, depth - 1)


def _parts(value: Any) -> list[Any]:
    """Return what a container of a plain kind holds; nothing of the user's own is called."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(cast("list[Any]", value))
    if isinstance(value, Mapping):
        return list(cast("dict[Any, Any]", value).values())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    held: Any = getattr(value, "__dict__", {}) if not isinstance(value, type) else {}
    return list(held.values())


def backward(roots: list[torch.Tensor], seed: int, *, without_memory: bool = False) -> None:
    """Run backward from the tensors, with cotangents that depend on the seed alone; they may be without memory, too."""
    generator = torch.Generator().manual_seed(seed)
    cotangents = [torch.ones_like(r.detach()) if without_memory else _cotangent(r, generator) for r in roots]
    # ``torch.autograd.backward`` imports sympy, to compare the shapes of cotangents: half a second in every run.
    engine: Any = torch.autograd._engine_run_backward  # pyright: ignore
    with _without_autocast(roots):
        engine(tuple(roots), tuple(cotangents), False, False, (), allow_unreachable=True, accumulate_grad=True)


@contextmanager
def _without_autocast(roots: list[torch.Tensor]) -> Generator[None]:
    """Leave the autocast in which a program may have called the target: backward belongs outside of it."""
    with ExitStack() as left:
        for kind in {root.device.type for root in roots}:
            if torch.is_autocast_enabled(kind):
                left.enter_context(torch.autocast(kind, enabled=False))
        yield


def failure_of_backward(roots: list[torch.Tensor], seed: int) -> Exception | None:
    """Run backward as ``backward`` does; return what it raises, which may be anything, functions being the user's."""
    try:
        backward(roots, seed)
    except Exception as error:  # noqa: BLE001 - see above
        return error
    return None


def _cotangent(root: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if is_traceable_wrapper_subclass(root):
        return torch.ones_like(root.detach())  # one of its own kind: a DTensor takes no other
    with torch._C._DisableTorchDispatch():  # pyright: ignore
        root = root.detach()
        if root.dim() == 0:
            return torch.ones_like(root)
        drawn = torch.randn(root.shape, generator=generator, dtype=torch.float32)
        return drawn.to(dtype=root.dtype, device=root.device)
