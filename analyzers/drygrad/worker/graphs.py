"""Walks over the graph that autograd has recorded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, cast


def nodes(roots: Iterable[Any]) -> Iterator[Any]:
    """Yield the nodes of the graph that ends in the tensors ``roots``, each once."""
    return nodes_below(root.grad_fn for root in roots if getattr(root, "grad_fn", None) is not None)


def nodes_below(first: Iterable[Any]) -> Iterator[Any]:
    """Yield some nodes and those that backward goes on to from them, each once."""
    waiting = [*first]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        yield node
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)


def leaves(roots: Iterable[Any]) -> Iterator[Any]:
    """Yield the leaves whose gradients a backward from the tensors ``roots`` accumulates."""
    return _leaves_of(nodes(roots))


def leaves_below(node: Any) -> Iterator[Any]:
    """Yield the leaves that backward comes to from a node."""
    return _leaves_of(nodes_below([node]))


def _leaves_of(passed: Iterable[Any]) -> Iterator[Any]:
    for node in passed:
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            yield leaf


def operation(node: Any) -> str:
    """Return what a node goes back through, as users call it: ``exp`` of ``ExpBackward0``."""
    name = re.sub(r"(Backward\d*)?$", "", node.name().rpartition("::")[2], count=1)
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return _USUAL.get(words, words)


_USUAL = {
    "mm": "a matrix product",
    "bmm": "a matrix product",
    "convolution": "a convolution",
    "addmm": "a linear layer or matrix product",
    "scaled_dot_product_flash_attention_for_cpu": "scaled_dot_product_attention",
    "scaled_dot_product_efficient_attention": "scaled_dot_product_attention",
}


def saved(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield the name and the ``SavedTensor`` of each tensor that a node keeps for backward."""
    for name in dir(node):
        if name.startswith("_raw_saved_"):
            raw: Any = getattr(node, name)
            several = cast("tuple[Any, ...]", raw if isinstance(raw, tuple) else (raw,))
            yield from ((name[len("_raw_saved_") :], one) for one in several)
