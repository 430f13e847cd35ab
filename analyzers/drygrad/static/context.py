"""What a rule may ask while it visits a node."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar, cast

from drygrad.model import Edit, Finding, Fix, Position, Related, Rule, Safety, Severity, Span
from drygrad.settings import Settings
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.module import ModuleFacts
from drygrad.static.facts.notes import CallSite
from drygrad.static.facts.values import (
    UNKNOWN,
    Class,
    Function,
    Method,
    Object,
    Reference,
    Tensor,
    TorchCall,
    Value,
)
from drygrad.static.source import Located, Source
from drygrad.static.tree import Tree

NodeType = TypeVar("NodeType", bound=ast.AST)
Derived = TypeVar("Derived")
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Loop = ast.For | ast.AsyncFor | ast.While
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Module)


class ElsewhereError(Exception):
    """A rule has asked for what is around a node of another file."""


class Context:
    """One file under analysis, as the rules see it."""

    def __init__(self, tree: Tree, facts: ModuleFacts, settings: Settings) -> None:
        self._tree = tree
        self._facts = facts
        self._derived: dict[object, object] = {}
        self._nodes: dict[tuple[type[ast.AST], ...], list[ast.AST]] = {}
        self._mentioned: dict[str | re.Pattern[str], bool] = {}
        self.settings = settings

    # -- the whole -----------------------------------------------------------------------------------------------

    @property
    def source(self) -> Source:
        """The text."""
        return self._tree.source

    @property
    def tree(self) -> ast.Module:
        """The syntax of the text."""
        return self._tree.module

    @property
    def facts(self) -> ModuleFacts:
        """What the interpretation has found out."""
        return self._facts

    def mentions(self, what: str | re.Pattern[str]) -> bool:
        """Say whether a word or a pattern occurs anywhere in the text; it is searched once, however many nodes ask."""
        if what not in self._mentioned:
            text = self.source.text
            self._mentioned[what] = what in text if isinstance(what, str) else what.search(text) is not None
        return self._mentioned[what]

    # -- facts ---------------------------------------------------------------------------------------------------

    def value(self, node: ast.expr | None) -> Value:
        """Return what is known of an expression's value."""
        return self._facts.recording.values.get(node, UNKNOWN) if node is not None else UNKNOWN

    def quantity(self, node: ast.expr | None) -> Value:
        """Return what is known of an expression's value, also of what may be a number, an array or a tensor."""
        return self._facts.recording.quantities.get(node) or self.value(node) if node is not None else UNKNOWN

    def tensor(self, node: ast.expr | None) -> Tensor | None:
        """Return the tensor that an expression is, None where it may be something else."""
        value = self.value(node)
        return value if isinstance(value, Tensor) else None

    def call(self, node: ast.expr) -> TorchCall | None:
        """Return the torch call that an expression is, whatever its spelling; None where it is none."""
        return self._facts.recording.calls.get(node)

    def name(self, node: ast.expr | None) -> str | None:
        """Return the full name of an imported thing: ``torch.nn.functional.relu`` for ``F.relu``; None otherwise.

        For a call of a class, function or method of the file: its own name.
        """
        value = self.value(node)
        match value:
            case Reference(name=name):
                return name
            case Class(name=name):
                return name
            case Function(node=ast.FunctionDef(name=name)):
                return name
            case _:
                return None

    def imported_as(self, name: str) -> str | None:
        """Return the name that stands for an imported module in this file; None where it is not imported."""
        return next((k for k, v in self._facts.globals.items() if isinstance(v, Reference) and v.name == name), None)

    def text(self, node: ast.expr) -> str | None:
        """Return ``a.b.c`` as text where an expression is a plain chain of names."""
        return dotted_text(node)

    def receiver(self, node: ast.Call) -> tuple[ast.expr, Value, str] | None:
        """Return the receiver of a method call, its value and the method's name; None for other calls."""
        if not isinstance(node.func, ast.Attribute):
            return None
        function = self.value(node.func)
        if isinstance(function, Reference):
            return None
        receiver = function.receiver if isinstance(function, Method) else self.value(node.func.value)
        return node.func.value, receiver, node.func.attr

    def grad_enabled(self, node: ast.AST) -> bool | None:
        """Return the grad mode at a statement or torch call; None where it depends, or the node was not reached."""
        return self._facts.recording.grad.get(node)

    def autocast(self, node: ast.AST) -> str | None:
        """Return ``off``, ``float16``, ``bfloat16`` or ``on`` at a statement or torch call; None: unknown."""
        return self._facts.recording.autocast.get(node)

    def reached(self, node: ast.stmt) -> bool:
        """Say whether the interpretation has reached a statement."""
        return node in self._facts.recording.grad

    def callers(self, function: FunctionNode) -> list[CallSite]:
        """Return the calls of a function that stand in this file."""
        return self._facts.callers.get(function, [])

    def classes(self) -> Iterable[Class]:
        """Return the classes of the file."""
        return self._facts.classes

    def class_of(self, node: ast.ClassDef) -> Class | None:
        """Return the class that a class statement makes."""
        return self.derived(_classes_by_node).get(node)

    def is_module_class(self, node: ast.ClassDef) -> bool:
        """Say whether a class statement makes an nn.Module, for certain."""
        cls = self.class_of(node)
        return cls is not None and Object(cls.name, cls=cls).is_module

    def derived(self, derive: Callable[[Context], Derived]) -> Derived:
        """Return what a function derives from the file; it runs once, however many rules ask."""
        if derive not in self._derived:
            self._derived[derive] = derive(self)
        return cast("Derived", self._derived[derive])

    def noted(self, derive: Callable[[NodeType, Context], Derived], node: NodeType) -> Derived:
        """Return what a function derives from a node; it runs once, and again only when the ground has changed.

        It may ask of nothing but the node's function and of what that calls or holds.
        """
        function = node if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else self.function(node)
        ground = self._facts.ground_of(function) if function is not None else None
        return self._facts.derivations.get((derive, node), ground, lambda: derive(node, self))

    # -- the tree ------------------------------------------------------------------------------------------------

    def parent(self, node: ast.AST) -> ast.AST | None:
        """Return the node that holds a node."""
        return self._tree.parents.get(node)

    def nodes(self, *kinds: type[NodeType]) -> Iterator[NodeType]:
        """Yield the nodes of exactly these types in the whole file."""
        found = self._nodes.get(kinds)
        if found is None:
            by_type = (statement.by_type for statement in self._tree.statements)
            found = self._nodes[kinds] = [node for nodes in by_type for kind in kinds for node in nodes.get(kind, ())]
        return iter(cast("list[NodeType]", found))

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes that hold a node, the innermost first."""
        parent = self.parent(node)
        while parent is not None:
            yield parent
            parent = self.parent(parent)

    def enclosing(self, node: ast.AST, *kinds: type[NodeType]) -> NodeType | None:
        """Return the innermost node of a kind around a node, within its function or class body."""
        for ancestor in self.ancestors(node):
            if isinstance(ancestor, kinds):
                return ancestor
            if isinstance(ancestor, _SCOPES):
                return None
        return None

    def function(self, node: ast.AST) -> FunctionNode | None:
        """Return the function around a node; None at module or class level."""
        for ancestor in self.ancestors(node):
            if isinstance(ancestor, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return ancestor
            if isinstance(ancestor, ast.ClassDef):
                return None
        return None

    def statement(self, node: ast.AST) -> ast.stmt:
        """Return the innermost statement around a node, or the node itself."""
        while not isinstance(node, ast.stmt):
            parent = self.parent(node)
            if parent is None:
                raise ElsewhereError
            node = parent
        return node

    def loops(self, node: ast.AST) -> list[Loop]:
        """Return the loops around a node within its function, the innermost first."""
        found: list[Loop] = []
        inner = node
        for ancestor in self.ancestors(node):
            if isinstance(ancestor, _SCOPES):
                break
            if isinstance(ancestor, (ast.For, ast.AsyncFor, ast.While)) and inner not in _heads(ancestor):
                found.append(ancestor)
            inner = ancestor
        return found

    # -- findings ------------------------------------------------------------------------------------------------

    def finding(
        self,
        rule: Rule,
        node: Located,
        message: str,
        *,
        severity: Severity | None = None,
        related: Iterable[tuple[str, Located]] = (),
        fixes: Iterable[Fix | None] = (),
        span: Span | None = None,
    ) -> Finding:
        """Make a finding of a rule at a node."""
        return Finding(
            rule.code,
            rule.name,
            " ".join(message.split()),
            self.settings.severity_of(rule.code, severity or rule.severity),
            span or self.source.span(node),
            tuple(Related(text, self.source.span(place)) for text, place in related),
            tuple(fix for fix in fixes if fix is not None),
            tags=rule.tags,
        )

    def fix(self, title: str, *edits: Edit | None, safety: Safety = "unsafe") -> Fix | None:
        """Make a fix of edits; None where one of them could not be made."""
        made = tuple(edit for edit in edits if edit is not None)
        return Fix(title, made, safety) if len(made) == len(edits) and made else None

    def replace(self, node: Located, text: str) -> Edit:
        """Replace a node's text."""
        return Edit(self.source.span(node), text)

    def insert_before(self, node: Located, text: str) -> Edit:
        """Insert text right before a node."""
        start = self.source.start(node)
        return Edit(Span(start, start), text)

    def insert_after(self, node: Located, text: str) -> Edit:
        """Insert text right after a node."""
        end = self.source.end(node)
        return Edit(Span(end, end), text)

    def remove_keyword(self, call: ast.Call, name: str) -> Edit | None:
        """Remove a keyword argument with its comma; None where it is not given, or a comment would go with it."""
        arguments = [*call.args, *call.keywords]
        given = next((k for k in call.keywords if k.arg == name), None)
        if given is None:
            return None
        index = arguments.index(given)
        start = self.source.end(arguments[index - 1]) if index else self.source.start(given)
        end = self.source.start(arguments[1]) if index == 0 and len(arguments) > 1 else self.source.end(given)
        span = Span(start, end)
        return None if "#" in self.source.slice(span) else Edit(span, "")

    def delete_statement(self, node: ast.stmt) -> Edit | None:
        """Delete a statement with its line; ``pass`` replaces the only one of a body; None if others share its line."""
        start, end = self.source.start(node), self.source.end(node)
        first, last = self.source.line_text(start.line), self.source.line_text(end.line)
        rest = last[end.column :].strip()
        if first[: start.column].strip() or (rest and not rest.startswith("#")):
            return None
        if self._is_alone(node):
            return self.replace(node, "pass")
        return Edit(Span(Position(start.line, 0), Position(end.line + 1, 0)), "")

    def insert_statement(self, node: ast.stmt, text: str, *, after: bool = False) -> Edit:
        """Insert a statement on a line of its own before a statement, or after it, with its indentation."""
        indentation, newline = self.source.indentation(node.lineno), self.source.newline
        decorators = getattr(node, "decorator_list", [])
        line = min([node.lineno, *(d.lineno for d in decorators)])
        if after:
            line = (node.end_lineno or node.lineno) + 1
            if not self.source.lines[line - 2].endswith(("\n", "\r")):
                end = Position(line - 1, len(self.source.line_text(line - 1)))
                return Edit(Span(end, end), f"{newline}{indentation}{text}")
        return Edit(Span(Position(line, 0), Position(line, 0)), f"{indentation}{text}{newline}")

    def _is_alone(self, node: ast.stmt) -> bool:
        parent = self.parent(node)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(parent, name, None)
            if isinstance(block, list) and node in block:
                return len(cast("list[ast.stmt]", block)) == 1
        return False

    def source_of(self, node: Located) -> str:
        """Return a node's text as written."""
        return self._tree.source.segment(node)


def _classes_by_node(ctx: Context) -> dict[ast.AST, Class]:
    return {cls.node: cls for cls in reversed([*ctx.classes()])}


def _heads(loop: Loop) -> tuple[ast.AST, ...]:
    """Return the parts of a loop that run once, and its else block."""
    if isinstance(loop, ast.While):
        return tuple(loop.orelse)
    return (loop.iter, *loop.orelse)
