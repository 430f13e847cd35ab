"""The syntax tree of a document, kept from version to version: an edit parses anew only the statements it touches.

Top-level statements that an edit leaves alone keep their very nodes (moved to their new lines), so that whatever was
found out about them, by node, stays valid.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import chain, repeat
from typing import TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary

from drygrad.static.source import Source, SourceError

Yielded = TypeVar("Yielded")


def remembered(generate: Callable[[ast.AST], Iterable[Yielded]]) -> Callable[[ast.AST], Iterator[Yielded]]:
    """Let a generator that reads nothing but the syntax at and below a node run once in the node's life.

    Rules walk the same bodies again and again, in version after version.
    """
    known: WeakKeyDictionary[ast.AST, tuple[bool, tuple[Yielded, ...]]] = WeakKeyDictionary()

    def read(node: ast.AST) -> Iterator[Yielded]:
        entry = known.get(node)
        if entry is None:
            parts = tuple(generate(node))
            # The node itself, which comes first if at all, is left out: an entry that held its key would live for ever.
            begins = bool(parts) and parts[0] is node
            entry = known[node] = (begins, parts[1:] if begins else parts)
        begins, rest = entry
        return chain((cast("Yielded", node),), rest) if begins else iter(rest)

    return read


# What these fields hold are no nodes, or one object (every Load, every Add) that stands in many places.
_LEAVES = frozenset(
    "ctx op ops id attr arg name kind level module type_comment lineno asname conversion simple is_async rest".split()
)
Nodes: TypeAlias = dict[type[ast.AST], list[ast.AST]]
"""Nodes by their types."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_held: dict[type[ast.AST], tuple[str, ...]] = {}
_KEPT = "drygrad_children"
"""The attribute of a node that keeps its children: asking ``ast`` for them costs more than most rules do."""


def children(node: ast.AST) -> tuple[ast.AST, ...]:
    """Return the nodes that a node holds, operators and contexts left out, in the order of its fields."""
    kept: tuple[ast.AST, ...] | None = getattr(node, _KEPT, None)
    if kept is None:
        kept = tuple(_read_children(node))
        setattr(node, _KEPT, kept)
    return kept


def _read_children(node: ast.AST) -> list[ast.AST]:
    kind = type(node)
    fields = _held.get(kind)
    if fields is None:
        fields = _held[kind] = tuple(name for name in kind._fields if name not in _LEAVES)
    found: list[ast.AST] = []
    for name in fields:
        value: object = getattr(node, name, None)
        if isinstance(value, ast.AST):
            found.append(value)
        elif isinstance(value, list):
            found += [item for item in cast("list[object]", value) if isinstance(item, ast.AST)]
    return found


def _below(node: ast.AST) -> Iterator[ast.AST]:
    waiting = deque((node,))
    while waiting:
        found = waiting.popleft()
        yield found
        waiting.extend(children(found))


_below_statement = remembered(_below)


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """Walk a node and all below it in the order of ``ast.walk``; operators and contexts are left out.

    A module, which is new in each version, is walked statement by statement.
    """
    if isinstance(node, ast.Module):
        return chain((node,), chain.from_iterable(map(_below_statement, node.body)))
    return _below_statement(node) if isinstance(node, ast.stmt) else _below(node)


class Statement:
    """One top-level statement, and what is asked of its nodes again and again."""

    def __init__(self, node: ast.stmt, source: Source, shift: int = 0) -> None:
        """Take a node whose lines in the source are ``shift`` further down than it says, and move it there."""
        self.node = node
        self.move(shift)
        self.text = (node.col_offset, "".join(source.lines[self.first_line - 1 : self.last_line]))

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """The node that holds each node below the statement."""
        return dict(_holders(self.node))

    @cached_property
    def by_type(self) -> Nodes:
        """The statement and all nodes below it, by their type."""
        found: Nodes = {type(self.node): [self.node]}
        for node in self.parents:
            found.setdefault(type(node), []).append(node)
        return found

    @cached_property
    def functions(self) -> list[ast.AST]:
        """The functions and lambdas in the statement."""
        return [node for node in (self.node, *self.parents) if isinstance(node, (*_FUNCTIONS, ast.Lambda))]

    @cached_property
    def inside(self) -> Nodes:
        """Of the nodes by their type those in the bodies of functions."""
        outer = [f for f in self.functions if isinstance(f, _FUNCTIONS) and not self._is_nested(f)]
        bodies = {node for function in outer for statement in function.body for node in walk(statement)}
        return {kind: found for kind, nodes in self.by_type.items() if (found := [n for n in nodes if n in bodies])}

    @cached_property
    def outside(self) -> Nodes:
        """Of the nodes by their type those that are executed with the file: no function's body holds them."""
        bodies = {node for nodes in self.inside.values() for node in nodes}
        return {kind: [n for n in nodes if n not in bodies] for kind, nodes in self.by_type.items()}

    def _is_nested(self, function: ast.AST) -> bool:
        holder = self.parents.get(function)
        while holder is not None and not isinstance(holder, _FUNCTIONS):
            holder = self.parents.get(holder)
        return holder is not None

    @property
    def first_line(self) -> int:
        """The first line, decorators included."""
        return min([self.node.lineno, *(d.lineno for d in getattr(self.node, "decorator_list", ()))])

    @property
    def last_line(self) -> int:
        """The last line."""
        return self.node.end_lineno or self.node.lineno

    def move(self, lines: int) -> None:
        """Move every node so many lines down."""
        for node in (self.node, *self.parents) if lines else ():
            if (first := getattr(node, "lineno", None)) is not None:
                node.lineno = first + lines  # pyright: ignore[reportAttributeAccessIssue]
                if (last := getattr(node, "end_lineno", None)) is not None:
                    node.end_lineno = last + lines  # pyright: ignore[reportAttributeAccessIssue]


def _holders(root: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Yield each node below a node with the one that holds it."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        below = children(node)
        yield from zip(below, repeat(node))
        waiting.extend(below)


class Tree:
    """The tree of one version; ``update`` makes the next."""

    def __init__(self, source: Source, statements: list[Statement]) -> None:
        self.source = source
        self.statements = statements
        self.module = ast.Module([statement.node for statement in statements], [])

    @classmethod
    def parse(cls, source: Source) -> Tree:
        """Parse a text as a whole. Raises SourceError where Python cannot."""
        return cls(source, [Statement(node, source) for node in source.parse().body])

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """The node that holds each node; the module has none."""
        parents: dict[ast.AST, ast.AST] = {}
        for statement in self.statements:
            parents[statement.node] = self.module
            parents.update(statement.parents)
        return parents

    def update(self, source: Source) -> Tree:
        """Return the tree of the next version. Raises SourceError where it does not parse.

        This tree is used up: the statements that both versions share are moved to where they stand now.
        """
        old, new = self.source.lines, source.lines
        head = _common_prefix(old, new)
        tail = _common_suffix(old, new, head)
        before, after = self._untouched(head, len(old) - tail)
        start = before[-1].last_line if before else 0
        shift = len(new) - len(old)
        end = after[0].first_line - 1 + shift if after else len(new)
        middle = _parse_lines(source, start, end)
        if middle is None or any(s.first_line <= start or s.last_line > end for s in middle):
            before, middle, after = [], Tree.parse(source).statements, []
        for statement in after:
            statement.move(shift)
        moved = self.statements[len(before) : len(self.statements) - len(after)]
        return Tree(source, [*before, *_recognised(middle, moved), *after])

    def _untouched(self, head: int, tail: int) -> tuple[list[Statement], list[Statement]]:
        """Return the statements that end well before line ``head`` and those that begin after line ``tail``.

        The last one before is left out, since the edit may continue it (an else), and so is what shares a line with
        a statement that is not kept.
        """
        count = len(self.statements)
        first = next((i for i, s in enumerate(self.statements) if s.last_line >= head), count)
        first = max(first - 1, 0)
        last = (
            next((i for i in range(count - 1, first - 1, -1) if self.statements[i].first_line <= tail), first - 1) + 1
        )
        while 0 < first < count and self.statements[first - 1].last_line >= self.statements[first].first_line:
            first -= 1
        while 0 < last < count and self.statements[last - 1].last_line >= self.statements[last].first_line:
            last += 1
        return self.statements[:first], self.statements[last:]


def _parse_lines(source: Source, start: int, end: int) -> list[Statement] | None:
    """Parse the lines after ``start`` up to ``end`` on their own; None where they do not parse so."""
    try:
        nodes = Source("".join(source.lines[start:end])).parse().body
    except SourceError:
        return None
    return [Statement(node, source, start) for node in nodes]


def _recognised(parsed: list[Statement], old: list[Statement]) -> list[Statement]:
    """Put old statements, moved, in the place of parsed ones that read the same."""
    known: dict[tuple[int, str], list[Statement]] = {}
    for statement in reversed(old):
        known.setdefault(statement.text, []).append(statement)
    return [_taken_from(known, statement) for statement in parsed]


def _taken_from(known: dict[tuple[int, str], list[Statement]], parsed: Statement) -> Statement:
    same = known.get(parsed.text)
    if not same:
        return parsed
    statement = same.pop()
    statement.move(parsed.first_line - statement.first_line)
    return statement


def _common_prefix(old: list[str], new: list[str]) -> int:
    shorter = min(len(old), len(new))
    return next((i for i in range(shorter) if old[i] != new[i]), shorter)


def _common_suffix(old: list[str], new: list[str], head: int) -> int:
    most = min(len(old), len(new)) - head
    return next((i for i in range(most) if old[-1 - i] != new[-1 - i]), most)
