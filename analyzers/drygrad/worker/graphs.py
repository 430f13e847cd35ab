"""Walks over the graph that autograd has recorded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, cast

SECOND = "backward through the graph a second time"
"""What torch says of a graph that is freed."""
_RAW, _SAVED = "_raw_saved_", "_saved_"


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
    custom = _CUSTOM.fullmatch(name)
    if custom is not None:
        return custom[1]
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return _USUAL.get(words, words)


_CUSTOM = re.compile(r"GeneratedBackwardFor_(.+)_[^_]+")
"""What torch calls the node of a custom operator: by its namespace, its own name and that of its overload."""
_USUAL = {
    "mm": "a matrix product",
    "bmm": "a matrix product",
    "convolution": "a convolution",
    "addmm": "a linear layer or matrix product",
    "scaled_dot_product_flash_attention_for_cpu": "scaled_dot_product_attention",
    "scaled_dot_product_efficient_attention": "scaled_dot_product_attention",
}


def saved(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield the name and the ``SavedTensor`` of each tensor that a node still keeps for backward.

    Some nodes give out what they kept even when it is freed, others raise: a custom function, an index of a list.
    """
    for name in dir(node):
        if name.startswith(_RAW) and not _refuses(node, name):
            raw: Any = getattr(node, name)
            several = cast("tuple[Any, ...]", raw if isinstance(raw, tuple) else (raw,))
            yield from ((name[len(_RAW) :], one) for one in several)


def is_freed(node: Any) -> bool:
    """Say whether a node has given up what it kept, as it does when backward has gone through it."""
    names = dir(node)
    for raw in (name for name in names if name.startswith(_RAW)):
        read = _SAVED + raw[len(_RAW) :]
        if _refuses(node, raw) or _refuses(node, read if read in names else "saved_tensors"):
            return True
    return False


def _refuses(node: Any, name: str) -> bool:
    """Say whether what a node kept is freed, so that it cannot be read any more."""
    try:
        getattr(node, name)
    except RuntimeError as error:
        return SECOND in str(error)
    return False
