"""Proposals for inputs as the plan's JSON has them: trees that the worker's search changes part by part.

``kind`` is tensor, number, text, call, bare, namespace, mapping, tuple, list, loader, function, changed, saved,
prepared or inputs;
drygrad/worker/search/nodes.py says what each means and how it is written as an expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

Node: TypeAlias = Mapping[str, Any]

BATCH, LENGTH, FEATURES, CHANNELS, SIDE = 2, 8, 64, 3, 32
"""The sizes that a search begins with: each is another one, so that an error tells which it speaks of."""

USUAL_SHAPES: Mapping[int, tuple[int, ...]] = {
    0: (),
    1: (BATCH,),
    2: (BATCH, FEATURES),
    3: (BATCH, LENGTH, FEATURES),
    4: (BATCH, CHANNELS, SIDE, SIDE),
    5: (BATCH, CHANNELS, 8, 16, 16),
}


_RANDOM = re.compile(
    r"torch\.(?:randint\((?P<low>\d+), (?P<high>\d+), |(?P<maker>randn?)\()\(?(?P<sizes>\d+(?:, \d+)*|\(\)),?\)?"
    r"(?:, dtype=torch\.(?P<dtype>\w+))?(?:, device=[\"']cuda[\"'])?\)"
)


def tensor(
    shape: Sequence[int], dtype: str = "float32", source: str = "search", *, high: int = 0, low: int = 0, why: str = ""
) -> Node:
    """Return a tensor: integers from ``low`` to below ``high``; floats that are probabilities where ``low`` is 1."""
    given = {"shape": list(shape), "dtype": dtype, "high": high, "value": low, "why": why}
    return {"kind": "tensor", "source": source, **given}


def read_again(expression: str) -> Node:
    """Return what a search has found as something that it may change again, and move: tensors, modules."""
    plain = expression.removesuffix('.to("cuda")').removesuffix(".to('cuda')")
    if plain != expression:
        return {**text(plain, "search"), "is_module": True}
    match = _RANDOM.fullmatch(expression)
    if match is None:
        return text(expression, "search")
    sizes = [int(size) for size in re.findall(r"\d+", match["sizes"])]
    drawn = match["maker"] is None
    dtype = match["dtype"] or ("int64" if drawn else "float32")
    low = int(match["low"] or 0) if drawn else int(match["maker"] == "rand")
    return tensor(sizes, dtype, high=int(match["high"] or 0), low=low)


def number(value: int, source: str = "search") -> Node:
    """Return an integer that the search may change."""
    return {"kind": "number", "value": value, "source": source}


def text(expression: str, source: str) -> Node:
    """Return an expression that stays as it is."""
    return {"kind": "text", "text": expression, "source": source}


def call(name: str, parts: Mapping[str, Node], source: str) -> Node:
    """Return a call; parts whose names are digits are passed by position."""
    return {"kind": "call", "text": name, "parts": list(parts.items()), "source": source}


def group(kind: str, parts: Mapping[str, Node], source: str = "search") -> Node:
    """Return a namespace, mapping, tuple, list or loader of parts."""
    return {"kind": kind, "parts": list(parts.items()), "source": source}


def row(kind: str, parts: Sequence[Node], source: str = "search") -> Node:
    """Return a tuple, list or loader of parts without names."""
    return group(kind, {str(index): part for index, part in enumerate(parts)}, source)


def function(given: Node) -> Node:
    """Return something to call that gives a value."""
    return group("function", {"given": given})


def changed(part: Node, expression: str) -> Node:
    """Return a value to which something was done: ``.numpy()``."""
    only: Node = {**part, "others": ()}  # what else it could be has no such method
    return {**group("changed", {"value": only}), "text": expression}


def saved(content: Node) -> Node:
    """Return the path of a file with some content."""
    return group("saved", {"content": content})


def with_others(first: Node, *others: Node) -> Node:
    """Return a node that could also be one of some others, best first."""
    return {**first, "others": [*first.get("others", ()), *others]}


def unbatched(node: Node) -> Node:
    """Return what one of a batch is: tensors without their first dimension."""
    if node["kind"] == "tensor":
        return {**node, "shape": node["shape"][1:], "others": []}
    if node["kind"] in ("tuple", "list", "mapping"):
        return {**node, "parts": [(name, unbatched(part)) for name, part in node["parts"]]}
    return node


def texts(node: Node) -> Iterator[str]:
    """Yield the expressions in a node that read names of the file."""
    if node["kind"] in ("text", "call", "bare"):
        yield str(node["text"])
    for _, part in (*node.get("parts", ()), *node.get("options", ())):
        yield from texts(part)
    for other in (*node.get("others", ()), *node.get("spare", ())):
        yield from texts(other)
