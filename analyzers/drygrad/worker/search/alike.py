"""Inputs that are of one form: an observation and the next one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from drygrad.worker.search.nodes import Node, Path


def with_alike(before: Node, after: Node) -> Iterator[Node]:
    """Yield a changed proposal: first with those changed, too, that were like a tensor that was, then as it is."""
    more = after
    for path, leaf in before.leaves():
        new = after.found_at(path)
        if leaf.kind != "tensor" or new is None or new.kind != "tensor" or new == leaf:
            continue
        for other in _those_alike(before, path, leaf):
            own = before.at(other)
            if after.found_at(other) == own:
                more = more.replaced(other, replace(own, shape=new.shape, dtype=new.dtype, high=new.high, why=new.why))
    if more != after:
        yield more
    yield after


def _those_alike(proposal: Node, path: Path, leaf: Node) -> list[Path]:
    """Return the parts beside one that have its form and name: ``next_obs`` beside ``obs``; in a step, two nameless."""
    found = [*_alike(proposal, path, leaf)]
    return found if len(found) == 1 or all(_is_named(path, other) for other in found) else []


def _is_named(path: Path, other: Path) -> bool:
    return not any(one != two and one.isdigit() for one, two in zip(path, other))


def _alike(proposal: Node, path: Path, leaf: Node) -> Iterator[Path]:
    above = [proposal.at(path[:end]) for end in range(len(path))]
    in_step = any(node.kind == "step" for node in above)
    for other, node in proposal.leaves():
        together = other != path and len(other) == len(path) and (node.kind, node.shape) == (leaf.kind, leaf.shape)
        if not together or node.dtype != leaf.dtype:
            continue
        differing = [(one, two) for one, two in zip(path, other) if one != two]
        if len(differing) == 1 and _names_alike(*differing[0], in_step):
            yield other


def _names_alike(one: str, other: str, in_step: bool) -> bool:
    if one.isdigit() and other.isdigit():
        return in_step
    short, long = sorted((one.lower(), other.lower()), key=len)
    return long in (f"next_{short}", f"new_{short}", f"{short}_next", f"{short}2")
