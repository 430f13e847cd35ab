"""Tells a batch from all else by its size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from drygrad.worker.search.nodes import Node, Path

_BATCHES = (6, 5)
"""Sizes to give a batch: one that can be halved, and one that cannot be taken for another's multiple."""


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


def _with_batch(proposal: Node, tensors: list[tuple[Path, Node]], old: int, new: int) -> Node:
    for path, leaf in tensors:
        if leaf.shape[0] == old:
            proposal = proposal.replaced(path, replace(leaf, shape=(new, *leaf.shape[1:])))
    return proposal
