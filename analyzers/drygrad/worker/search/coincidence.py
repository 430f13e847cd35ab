"""Sizes that are equal by chance: inputs that fit only so are none to claim a success with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from drygrad.worker.search.nodes import Node
from drygrad.worker.search.trial import Call

_CLASS_LOSSES = frozenset(("cross_entropy", "nll_loss"))
_CLASSES = re.compile(r"(.*_|n|num)?(classes|class|labels|tags|categories|vocab|words|tokens?)(_size|_len)?")
_MORE = 7
_ROWS = frozenset(("list", "tuple"))
DOCUMENTED = "documented shape"
"""The source of shapes that the function's own comments tell."""


def has_classes_last(call: Call) -> bool:
    """Say whether a loss of classes gets (B, T, C) and targets of (B, T): it fits only where T is C by chance."""
    given, target = call.argument(0, "input"), call.argument(1, "target")
    if call.name not in _CLASS_LOSSES or not (isinstance(given, torch.Tensor) and isinstance(target, torch.Tensor)):
        return False
    return given.dim() > 2 and target.shape == given.shape[:-1] and given.shape[1] != given.shape[-1]


def differ_in_sizes_only(one: Node, other: Node) -> bool:
    """Say whether two proposals are the same but for numbers, sizes and the lengths of lists."""
    return _form(one) == _form(other)


def has_free_loss(proposal: Node) -> bool:
    """Say whether a loss was invented: its inputs may have another form for the one that the program has."""
    return any("CrossEntropyLoss" in leaf.text or "NLLLoss" in leaf.text for _, leaf in proposal.leaves())


def has_free_model(proposal: Node) -> bool:
    """Say whether a module stands in for one that the program has: its results have its own sizes."""
    return any(node.is_module and node.kind == "text" for _, node in proposal.nodes())


def with_more_classes(proposal: Node) -> Iterator[Node]:
    """Yield the proposal with other numbers of what is called classes, labels or words."""
    for path, leaf in proposal.leaves():
        if leaf.kind == "number" and _CLASSES.fullmatch(path[-1].lower()):
            yield proposal.replaced(path, replace(leaf, value=leaf.value + _MORE))


def broadcast(call: Call) -> tuple[object, ...]:
    """Return how the two sides of a loss differ in shape: their ranks, and where one side has only one element."""
    return call.name, *[tuple(size == 1 for size in tensor.shape) for tensor in call.tensors()[:2]]


def contradicts(before: Node, after: Node) -> bool:
    """Say whether a tensor has another number of dimensions than what is written of it."""
    told = ((path, leaf) for path, leaf in before.leaves() if leaf.kind == "tensor" and leaf.source == DOCUMENTED)
    return any(not _has_rank(after, path, len(leaf.shape)) for path, leaf in told)


def documented(proposal: Node, call: Call) -> list[str]:
    """Return the names of the inputs of a call whose shapes are written down."""
    met = call.origins(call.tensors())
    return sorted({path[-1] for path, leaf in proposal.leaves() if path in met and leaf.source == DOCUMENTED})


def _has_rank(node: Node, path: tuple[str, ...], rank: int) -> bool:
    found = node.found_at(path)
    return found is not None and found.kind == "tensor" and len(found.shape) == rank


def _form(node: Node) -> tuple[Any, ...]:
    parts = [(name, _form(part)) for name, part in node.parts]
    if node.kind in _ROWS and all(form == parts[0][1] for _, form in parts):
        parts = parts[:1]
    return node.kind, node.text, len(node.shape), node.dtype, tuple(parts)
