"""Strides do not matter: images as NumPy and channels-last layers have them, and transposed gradients, are taken."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import torch

from drygrad.worker import errors, probe
from drygrad.worker.experiments.batches import mapped
from drygrad.worker.experiments.bench import Bench, Called
from drygrad.worker.experiments.copies import Copies
from drygrad.worker.experiments.relation import NotTried, Relation
from drygrad.worker.reading import is_readable
from drygrad.worker.run import Fault

_REFUSED = "view size is not compatible"
_COLORS = (1, 3, 4)


class StridesDoNotMatter(Relation):
    """Calls the target with images whose channels lie side by side, and goes backward from what is transposed."""

    code: ClassVar[str] = "DG942"
    name: ClassVar[str] = "strides do not matter"
    rank: ClassVar[int] = 24

    def examine(self, bench: Bench) -> Iterable[Fault]:
        """Yield where a view is refused."""
        given = bench.inputs()
        copies = Copies(given)
        copies.with_gradients = False
        images = any(map(_is_image, given.tensors()))
        other = mapped(copies.inputs({}), _relaid) if images else copies.inputs({})
        bench.watch(other)
        called = bench.call(other)
        if called.error is not None:
            yield _refused(bench, called, "with images in channels-last memory")
            return
        roots = [root for root in probe.outputs(called.returned) if root.dim() > 1]
        if roots:
            failed = _backward(bench, roots)
            if failed.error is not None:
                yield _refused(bench, failed, "with a gradient that is not contiguous")
        elif not images:
            raise NotTried("there are no images among its inputs, and its results need no gradients")


def _is_image(tensor: torch.Tensor) -> bool:
    return is_readable(tensor) and tensor.is_contiguous() and not _relaid(tensor).is_contiguous()


def _relaid(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same image with its channels next to each other in memory; what is none stays as it is."""
    if (
        not tensor.is_floating_point()
        or tensor.dim() not in (3, 4)
        or (tensor.dim() == 3 and len(tensor) not in _COLORS)
    ):
        return tensor
    axis = tensor.dim() - 3
    with torch.no_grad():
        laid = tensor.detach().movedim(axis, -1).clone(memory_format=torch.contiguous_format).movedim(-1, axis)
    return laid.requires_grad_(tensor.requires_grad)


def _backward(bench: Bench, roots: list[torch.Tensor]) -> Called:
    """Go backward from results that are used transposed: so are the gradients that they get."""
    sums = [(root.mT * torch.rand_like(root.mT, memory_format=torch.contiguous_format)).sum() for root in roots]
    error = probe.failure_of_backward(sums, bench.seed)
    return Called(error=error, place=bench.run.lines.place_of_error(error) if error is not None else None)


def _refused(bench: Bench, called: Called, why: str) -> Fault:
    """Return the fault of a view that was refused. Raises NotTried for another error."""
    assert called.error is not None
    said = errors.text_of(called.error)
    if not (isinstance(called.error, RuntimeError) and _REFUSED in said) or called.place is None:
        raise NotTried(
            errors.shortened(f"{why} it ends with {type(called.error).__name__}: {errors.first_line(called.error)}")
        )
    message = f"{why}, torch refuses this `view`: its dimensions cannot be merged without a copy"
    return Fault(StridesDoNotMatter.code, message, called.place, said, severity="info")
