"""Proposals for inputs: trees of nodes that are changed part by part and written as Python expressions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

Path = tuple[str, ...]

FLOATS = frozenset(("float32", "float16", "bfloat16", "float64", "complex64"))
_BATCHES = 2
CLASSES = 10
_STAYING = frozenset(("changed", "saved", "loader"))
DEFINITE = 2
"""The ``value`` of floats that are positive-definite matrices; 1 is that of numbers between 0 and 1."""


@dataclass(frozen=True)
class Node:
    """One proposal, or a part of one.

    ``kind``: tensor · number (``value``) · text (an expression as it is) · call (of ``text``, with ``parts``) ·
    namespace, mapping, tuple, list (of ``parts``) · loader (of one batch) · inputs (the receiver and the arguments) ·
    function (that gives its part) · changed (its part, with ``text`` after it) · saved (the path of a file with its
    part) · prepared (the first part after its other parts, steps: calls of its methods ``value`` times) · bare (an
    object of the class ``text`` without its constructor, with its parts as attributes) · held (its first part, which
    holds the others as attributes).
    ``high`` bounds the values of integers, exclusively; ``others`` are what else it could be, best first;
    ``source`` and ``why`` say in words where it comes from.
    """

    kind: str
    text: str = ""
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    high: int = 0
    value: int = 0
    device: str = ""
    parts: tuple[tuple[str, Node], ...] = ()
    others: tuple[Node, ...] = ()
    source: str = "search"
    why: str = ""
    is_module: bool = False
    options: tuple[tuple[str, Node], ...] = ()
    """Parts with a default that it could be given as well."""
    spare: tuple[Node, ...] = ()
    """What could stand here where it cannot be made in any way."""

    @property
    def is_fixed(self) -> bool:
        """Whether the search has nothing to change in it."""
        return self.kind == "text" and not self.others

    def part(self, name: str) -> Node | None:
        """Return the part of that name."""
        return dict(self.parts).get(name)

    def with_part(self, name: str, part: Node) -> Node:
        """Return the node with one part changed or added."""
        return replace(self, parts=tuple({**dict(self.parts), name: part}.items()))

    def leaves(self, path: Path = ()) -> Iterator[tuple[Path, Node]]:
        """Yield the nodes without parts, each with the names that lead to it."""
        if not self.parts:
            yield path, self
        for name, part in self.parts:
            yield from part.leaves((*path, name))

    def nodes(self, path: Path = ()) -> Iterator[tuple[Path, Node]]:
        """Yield every node below this one, each with the names that lead to it."""
        for name, part in self.parts:
            yield (*path, name), part
            yield from part.nodes((*path, name))

    def at(self, path: Path) -> Node:
        """Return the node that a path leads to."""
        node = self
        for name in path:
            node = dict(node.parts)[name]
        return node

    def found_at(self, path: Path) -> Node | None:
        """Return the node that a path leads to; None where it leads nowhere."""
        node: Node | None = self
        for name in path:
            node = node.part(name) if node is not None else None
        return node

    def is_loaded(self, path: Path) -> bool:
        """Say whether a part comes from a loader."""
        return any(self.at(path[:end]).kind == "loader" for end in range(len(path)))

    def stays(self, path: Path) -> bool:
        """Say whether a part stays on the CPU: it becomes an array, is in a file, or comes from a loader."""
        return any(self.at(path[:end]).kind in _STAYING for end in range(1, len(path)))

    def replaced(self, path: Path, node: Node) -> Node:
        """Return the tree with the node at a path replaced; the elements of a list that are alike stay so."""
        if not path:
            return node
        if self.kind == "list" and len(self.parts) > 1 and all(part == self.parts[0][1] for _, part in self.parts):
            changed = dict(self.parts)[path[0]].replaced(path[1:], node)
            return replace(self, parts=tuple((name, changed) for name, _ in self.parts))
        return self.with_part(path[0], dict(self.parts)[path[0]].replaced(path[1:], node))


def read(data: dict[str, Any]) -> Node:
    """Read a node from the JSON of a plan."""
    plain = {
        name: data[name] for name in ("text", "dtype", "high", "value", "source", "why", "is_module") if name in data
    }
    return Node(
        kind=data["kind"],
        shape=tuple(data.get("shape") or ()),
        parts=tuple((name, read(part)) for name, part in data.get("parts") or ()),
        others=tuple(read(other) for other in data.get("others") or ()),
        options=tuple((name, read(part)) for name, part in data.get("options") or ()),
        spare=tuple(read(other) for other in data.get("spare") or ()),
        **plain,
    )


def text_of(node: Node) -> str:
    """Return the expression that makes what a node proposes."""
    return render(node, [text_of(part) for _, part in node.parts])


def render(node: Node, parts: Sequence[str]) -> str:
    """Return the expression of a node, given those of its parts."""
    named = list(zip((name for name, _ in node.parts), parts))
    if node.kind == "tensor":
        return _tensor(node)
    if node.kind == "number":
        return str(node.value)
    if node.kind in ("call", "namespace"):
        return _called(node, named) + _moved(node)
    if node.kind == "step":
        written = _called(node, named, "made.")
        return f"[{written} for _ in range({node.value})]" if node.value > 1 else written
    if node.kind == "prepared":
        return f"(lambda made: ({', '.join(parts[1:])}, made)[-1])({parts[0]})"
    if node.kind in ("bare", "held"):
        return _holding(node, named) + _moved(node)
    if node.kind == "function":
        return f"(lambda *given, **named: {parts[0]})"
    if node.kind == "changed":
        return parts[0] + node.text
    if node.kind == "saved":
        return f"(torch.save({parts[0]}, 'dry-run.tmp'), 'dry-run.tmp')[1]"
    if node.kind == "mapping":
        return "{" + ", ".join(f"{key!r}: {part}" for key, part in named) + "}"
    if node.kind == "tuple":
        return "(" + ", ".join(parts) + ("," if len(parts) == 1 else "") + ")"
    if node.kind == "list":
        return "[" + ", ".join(parts) + "]"
    if node.kind == "loader":
        batches = f"[{parts[0]} for _ in range({_BATCHES})]"
        return f"torch.utils.data.DataLoader({batches}, batch_size=None)"
    return node.text + _moved(node)


def _called(node: Node, named: Sequence[tuple[str, str]], owner: str = "") -> str:
    """Return a call; what other parts of it read is bound by a name before."""
    name = owner + node.text
    if node.kind == "namespace":
        name = _namespace([one for one in named if one[0].startswith("__")])
        named = [one for one in named if not one[0].startswith("__")]
    read = [key for key in shared(node) if key in dict(named)]
    given = [(key, key if key in read else part) for key, part in named]
    written = f"{name}({', '.join(part if key.isdigit() else f'{key}={part}' for key, part in given)})"
    for key in reversed(read):
        written = f"(lambda {key}: {written})({dict(named)[key]})"
    return written


def _namespace(special: Sequence[tuple[str, str]]) -> str:
    """Return the class of objects that have attributes, and some of Python's special methods."""
    if not special:
        return "types.SimpleNamespace"
    methods = ", ".join(f"{name!r}: lambda *given, **named: {part}" for name, part in special)
    return f"type('Namespace', (types.SimpleNamespace,), {{{methods}}})"


def _holding(node: Node, named: Sequence[tuple[str, str]]) -> str:
    """Return an object that is given attributes; tensors that a module without its constructor holds move with it."""
    begun, kept, made = "", "setattr(made, *one)", f"object.__new__({node.text})"
    if node.kind == "held":
        (_, made), *named = named
    elif node.is_module:
        begun = "torch.nn.Module.__init__(made), "
        kept = f"made.register_buffer(*one) if type(one[1]) is torch.Tensor else {kept}"
    given = "".join(f", {key}={part}" for key, part in named)
    return f"(lambda made, **held: ({begun}[{kept} for one in held.items()], made)[-1])({made}{given})"


def shared(node: Node) -> list[str]:
    """Return the names of the parts of a call that other parts of it read."""
    written = [part.text for _, part in node.parts if part.kind == "text"]
    names = [name for name, _ in node.parts if not name.isdigit()]
    return [name for name in names if any(re.search(rf"(?<![\w.]){name}\b(?!=)", text) for text in written)]


def _moved(node: Node) -> str:
    return f'.to("{node.device}")' if node.device else ""


def _tensor(node: Node) -> str:
    sizes = ", ".join(map(str, node.shape))
    tail = f', device="{node.device}"' if node.device else ""
    if node.dtype == "bool":
        last = node.shape[-1] if node.shape else 1
        expanded = f".expand({sizes})" if len(node.shape) > 1 else ""
        return f"(torch.arange({last}{tail}){expanded} < {max(last - 1, 1)})"
    if node.dtype not in FLOATS:
        kind = "" if node.dtype == "int64" else f", dtype=torch.{node.dtype}"
        shape = f"({sizes},)" if len(node.shape) == 1 else f"({sizes})"
        return f"torch.randint({node.value}, {max(node.high or CLASSES, node.value + 1)}, {shape}{kind}{tail})"
    kind = "" if node.dtype == "float32" else f", dtype=torch.{node.dtype}"
    if node.value == DEFINITE and len(node.shape) > 1:
        last = node.shape[-1]
        batch = f".repeat({', '.join(map(str, node.shape[:-2]))}, 1, 1)" if len(node.shape) > 2 else ""
        return f"torch.eye({last}{kind}{tail}){batch}"
    maker = "rand" if node.value == 1 else "randn"
    return f"torch.{maker}({sizes or '()'}{kind}{tail})"
