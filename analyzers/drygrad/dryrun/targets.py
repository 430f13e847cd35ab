"""What can be run in a text: its functions and methods, and its top-level code.

A function inside a function is no target of its own: what it closes over exists only while the outer one runs. A
cursor in it, or its name, means the outer one. Classes inside functions are left out for the same reason. A property,
a fixture, ``__init__`` and their like are run only when they are named, and so is what a thread does in a loop until
another one tells it to end. The name of a class means what its objects do when they are called, else its constructor.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from drygrad.dryrun.inputs.comment import comments_above, comments_of_script
from drygrad.dryrun.names import blocks
from drygrad.model import Position, Span
from drygrad.static.source import Source, SourceError
from drygrad.static.statements import first_line
from drygrad.static.syntax import called
from drygrad.static.toplevel import acts, is_main_block, runs_something

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Kind = Literal["function", "method", "script"]

_HEAD = re.compile(r"(?:async\s+)?(?:def|class)\s+")
_OF_OTHERS = frozenset("property cached_property setter deleter fixture".split())
"""Decorators of functions that nobody calls by their names; pytest calls fixtures, and refuses who else does."""
_READING = frozenset("property cached_property functools.cached_property".split())
_DOING = ("forward", "__call__", "__init__")
"""What an object of a class is made for, the likeliest first."""
_ENTRIES = frozenset(("hydra.main", "click.command", "click.group"))


@dataclass(frozen=True)
class Target:
    """One thing that can be run. ``qualname`` is Python's ``__qualname__``; None for the script.

    ``span`` runs from the first decorator to the end of the body; ``owner`` is a method's class; ``receiver`` what a
    method calls its first parameter, if it has one to be given: of a class method Python gives it, and autograd of the
    ``forward`` that ``apply`` calls.
    """

    qualname: str | None
    kind: Kind
    node: FunctionNode | ast.Module
    span: Span
    name_span: Span
    owner: ast.ClassDef | None = None
    receiver: str | None = None
    is_class_method: bool = False
    skipped: bool = False
    is_special: bool = False

    @property
    def lens(self) -> Position:
        """Where an editor shows what can be done with the target: the line of its name."""
        return self.name_span.start

    @property
    def is_entry(self) -> bool:
        """Whether a decorator makes the function what a program starts with, which takes its arguments from outside."""
        made = [d.func if isinstance(d, ast.Call) else d for d in getattr(self.node, "decorator_list", ())]
        return any(ast.unparse(decorator) in _ENTRIES for decorator in made)

    @property
    def function(self) -> FunctionNode | None:
        """The definition; None for the script."""
        return None if isinstance(self.node, ast.Module) else self.node


def targets(source: Source) -> tuple[Target, ...]:
    """Return the targets in the order of the text, the script last; none where the text does not parse."""
    named = {target.qualname: target for target in _all(source) if not target.is_special}
    script = _script(source) if is_program(source) else None
    return tuple(sorted(named.values(), key=lambda t: t.span)) + ((script,) if script else ())


def target_named(source: Source, qualname: str | None) -> Target | None:
    """Return the target of a name, the last definition if there are several; any text that parses has a script.

    A class stands for what its objects do, a method may be inherited from a class of the file, and a function inside
    another one stands for that.
    """
    if qualname is None:
        return _script(source)
    found = [target for target in _all(source) if target.qualname == qualname]
    return _read_first(found) or _of_class(source, qualname) or _around(source, qualname)


def _read_first(found: Sequence[Target]) -> Target | None:
    """Return the last of several definitions; of a property that which reads it."""
    reading = (t for t in found if t.function and {*map(ast.unparse, t.function.decorator_list)} & _READING)
    return next(reading, None) or (found[-1] if found else None)


def _of_class(source: Source, qualname: str) -> Target | None:
    """Return what a class does, or a method that it inherits, under its own name."""
    try:
        classes = {name: node for name, node in definitions(source.tree.body) if isinstance(node, ast.ClassDef)}
    except SourceError:
        return None
    owner, _, method = qualname.rpartition(".")
    wanted = [(qualname, name) for name in _DOING] if qualname in classes else [(owner, method)]
    for name, member in wanted:
        for base in _ancestry(classes, name):
            found = (
                n for n in base.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)) and n.name == member
            )
            node = next(found, None)
            if node is not None:
                return _target(source, f"{name}.{member}", node, classes[name])
    return None


def _ancestry(classes: Mapping[str, ast.ClassDef], name: str) -> Iterator[ast.ClassDef]:
    """Yield a class and those of its bases that the file defines, the nearest first."""
    waiting, seen = [name], set[str]()
    while waiting:
        name = waiting.pop(0)
        if name in classes and name not in seen:
            seen.add(name)
            yield classes[name]
            waiting += [ast.unparse(base) for base in classes[name].bases]


def _around(source: Source, qualname: str) -> Target | None:
    """Return the function around one that is named as ``outer.inner`` or ``outer.<locals>.inner``."""
    names = [part for part in qualname.split(".") if part != "<locals>"]
    for end in range(len(names) - 1, 0, -1):
        outer = next((t for t in _all(source) if t.qualname == ".".join(names[:end])), None)
        if outer is not None:
            inner = {n.name for n in ast.walk(outer.node) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))}
            return outer if inner.issuperset(names[end:]) else None
    return None


def target_at(source: Source, position: Position) -> Target | None:
    """Return the target under a cursor.

    It is the innermost target around it, or the one whose inputs a comment there gives; in a class, outside its
    methods, ``forward``; elsewhere the script, if the file runs anything.
    """
    around = [target for target in _all(source) if _first_line(source, target) <= position.line <= target.span.end.line]
    if around:
        return max(around, key=lambda target: target.span.start)
    if (owner := _class_at(source, position.line)) is not None:
        return target_named(source, f"{owner}.forward")
    return _script(source) if is_program(source) else None


def definitions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, FunctionNode | ast.ClassDef]]:
    """Yield what a module's or a class's body defines, with its qualified name, classes before what is in them."""
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield prefix + statement.name, statement
        elif isinstance(statement, ast.ClassDef):
            yield prefix + statement.name, statement
            yield from definitions(statement.body, f"{prefix}{statement.name}.")
        else:
            for block in blocks(statement):
                yield from definitions(block, prefix)


# -- functions and methods --------------------------------------------------------------------------------------


def _all(source: Source) -> Iterator[Target]:
    try:
        found = list(definitions(source.tree.body))
    except SourceError:
        return
    classes = {name: node for name, node in found if isinstance(node, ast.ClassDef)}
    in_threads = _given_to_threads(source.tree) if "Thread" in source.text else set[str]()
    for name, node in found:
        if not isinstance(node, ast.ClassDef):
            target = _target(source, name, node, classes.get(name.rpartition(".")[0]))
            waits = node.name in in_threads and any(isinstance(inner, ast.While) for inner in ast.walk(node))
            yield replace(target, is_special=True) if waits else target


def _given_to_threads(tree: ast.Module) -> set[str]:
    """Return the last names of what ``Thread(target=...)`` is given."""
    threads = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and called(node) == "Thread")
    given = (keyword.value for call in threads for keyword in call.keywords if keyword.arg == "target")
    return {ast.unparse(value).rpartition(".")[2] for value in given}


def _target(source: Source, qualname: str, node: FunctionNode, owner: ast.ClassDef | None) -> Target:
    start = Position(first_line(node), source.start(node).column)
    made = (d.func if isinstance(d, ast.Call) else d for d in node.decorator_list)
    decorators = {ast.unparse(decorator).rpartition(".")[2] for decorator in made}
    applied = owner is not None and is_applied(node, owner)
    receives = owner is not None and ("staticmethod" not in decorators or applied)
    parameters = [*node.args.posonlyargs, *node.args.args]
    return Target(
        qualname,
        "method" if owner else "function",
        node,
        Span(start, source.end(node)),
        name_span(source, node),
        owner,
        parameters[0].arg if receives and parameters else None,
        applied or "classmethod" in decorators,
        any(comment.skip for comment in comments_above(source, node)),
        bool(decorators & _OF_OTHERS) or (_is_dunder(node.name) and node.name != "__call__"),
    )


def is_applied(node: FunctionNode, owner: ast.ClassDef) -> bool:
    """Say whether a method is the ``forward`` of a function of autograd's, which ``apply`` gives its context."""
    derived = any(ast.unparse(base).rpartition(".")[2] == "Function" for base in owner.bases)
    apart = any(isinstance(n, ast.FunctionDef) and n.name == "setup_context" for n in owner.body)
    return derived and not apart and node.name == "forward"


def _first_line(source: Source, target: Target) -> int:
    """Return the line of the first comment with inputs, else of the first decorator, else of the name."""
    comments = comments_above(source, target.function) if target.function else []
    return comments[0].first if comments else target.span.start.line


def name_span(source: Source, node: FunctionNode | ast.ClassDef) -> Span:
    """Return the span of the name in a definition."""
    offset = source.offset(source.start(node))
    head = _HEAD.match(source.text, offset)
    start = head.end() if head else offset
    return Span(source.position(start), source.position(start + len(node.name)))


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _class_at(source: Source, line: int) -> str | None:
    try:
        found = definitions(source.tree.body)
        inside = [n for n, c in found if isinstance(c, ast.ClassDef) and first_line(c) <= line <= (c.end_lineno or 0)]
    except SourceError:
        return None
    return max(inside, key=len, default=None)


# -- the script -------------------------------------------------------------------------------------------------


def _script(source: Source) -> Target | None:
    try:
        body = source.tree.body
    except SourceError:
        return None
    place = next((s for s in body if is_main_block(s)), None) or next(filter(acts, body), None)
    line = place.lineno if place else 1
    head = Span.of(line, 0, line, len(source.line_text(line)))
    whole = Span(Position(1, 0), source.position(len(source.text)))
    skipped = any(comment.skip for comment in comments_of_script(source))
    return Target(None, "script", source.tree, whole, head, skipped=skipped)


def is_program(source: Source) -> bool:
    """Say whether a text is one that is run, rather than merely imported."""
    try:
        return runs_something(source.tree)
    except SourceError:
        return False
