"""Sizes and values that tell more: a batch that nothing else is as large as, integers up to the last that fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from drygrad.worker.search.nodes import CLASSES, FLOATS, Node, Path

_BATCHES = (6, 5)
"""Sizes to give a batch: one that can be halved, and one that cannot be taken for another's multiple."""

_HIGHS = (8, 5, 4, 3, 2, 1)


def distinguished(proposal: Node) -> Iterator[Node]:
    """Yield the proposal with another size of the batch where other axes or numbers have the same."""
    tensors = [(path, leaf) for path, leaf in proposal.leaves() if leaf.kind == "tensor" and leaf.shape]
    leading = Counter(leaf.shape[0] for _, leaf in tensors)
    others = {size for _, leaf in tensors for size in leaf.shape[1:]}
    others |= {leaf.value for _, leaf in proposal.leaves() if leaf.kind == "number"}
    batch = next((size for size, _ in leading.most_common(1) if size > 1 and size in others), None)
    if batch is None:
        return
    for size in _BATCHES:
        if size not in others and size not in leading:
            yield _with_batch(proposal, tensors, batch, size)


def highs(leaf: Node) -> list[int]:
    """Return the bounds to try for the integers of a leaf, exclusive ones, the present one first."""
    if leaf.kind != "tensor" or leaf.dtype in FLOATS or leaf.dtype == "bool" or leaf.value:
        return []
    high = leaf.high or CLASSES
    return [high, *(other for other in _HIGHS if other < high)] if high > 1 else []


def _with_batch(proposal: Node, tensors: list[tuple[Path, Node]], old: int, new: int) -> Node:
    for path, leaf in tensors:
        if leaf.shape[0] == old:
            proposal = proposal.replaced(path, replace(leaf, shape=(new, *leaf.shape[1:])))
    return proposal
