"""Samples of different shapes that a loader cannot make one batch of."""

from __future__ import annotations

from typing import Any

from drygrad.worker.explain.scene import Scene
from drygrad.worker.reading import size_text
from drygrad.worker.run import Fault

_SHOWN = 4


def collating_fault(scene: Scene, code: str) -> Fault | None:
    """Explain samples that ``default_collate`` cannot stack, where the loader was made: it can pad them."""
    fetching: list[Any] = scene.call.local("self", "possibly_batched_index")
    if not fetching or not scene.call.local("batch", "collate_fn_map"):
        return None
    shapes = dict.fromkeys(size_text(operand.tensor.shape) for operand in scene.operands())
    if len(shapes) < 2:
        return None
    shown = ", ".join([*shapes][:_SHOWN])
    message = (
        f"the samples of a batch have different shapes, {shown}; a loader without `collate_fn` can only stack "
        "equal shapes"
    )
    return scene.moved(scene.fault(code, message), scene.elsewhere(scene.run.loader_at(fetching[0].dataset)))
