"""Which function a call calls, and of which class of the file an object is."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from drygrad.dryrun.inputs.arguments import FunctionNode
from drygrad.dryrun.inputs.fixtures import fixtures_in, given_by
from drygrad.dryrun.inputs.forwarding import constructor_of
from drygrad.dryrun.names import blocks
from drygrad.dryrun.targets import definitions, is_applied

SAME_OBJECT = frozenset("to cuda cpu eval train half double float bfloat16 requires_grad_ apply".split())
"""Methods of a module that return the module."""

_DEPTH = 4


@dataclass(frozen=True)
class Scope:
    """Where a call stands: its function (None: top level), that function's class, and the statements around it."""

    function: FunctionNode | None
    owner: ast.ClassDef | None
    way: tuple[ast.stmt, ...]


class Classes:
    """The calls of a file, and the classes of the objects they are made on."""

    def __init__(self, tree: ast.Module, known: Mapping[str, ast.stmt] | None = None) -> None:
        """``known`` are definitions of another file, by what this one calls them."""
        self._tree = tree
        every: dict[str, ast.stmt] = {**(known or {}), **dict(definitions(tree.body))}
        self._by_name = {name: node for name, node in every.items() if isinstance(node, ast.ClassDef)}
        self._names = {id(node): name for name, node in every.items()}
        self._fixtures = fixtures_in(tree)
        self._written: dict[int, str] = {}
        self._assigned: dict[tuple[int, bool], dict[str, list[ast.expr]]] = {}
        self._told: dict[tuple[int, int, int], ast.ClassDef | None] = {}

    @cached_property
    def calls(self) -> list[tuple[ast.Call, Scope]]:
        """Every call outside of nested functions, with its place."""
        return list(_calls(self._tree.body, Scope(None, None, ())))

    def matches(self, call: ast.Call, scope: Scope, function: FunctionNode, owner: ast.ClassDef | None) -> str | None:
        """Return the text of the receiver if the call calls the function (empty: it has none); None if it does not."""
        called = self._text(call.func)
        qualname = self._names.get(id(function), function.name)
        if owner is None:
            return "" if called == qualname or called in self._aliases(qualname) else None
        decorators = {ast.unparse(decorator) for decorator in function.decorator_list}
        if is_applied(function, owner):
            return "" if called == f"{self._names.get(id(owner))}.apply" else None
        if decorators & {"staticmethod", "classmethod"}:
            return "" if called == qualname else None
        if function.name == "__init__":
            name = self._names[id(owner)]
            return f"{name}.__new__({name})" if called == name else None
        if isinstance(call.func, ast.Attribute) and call.func.attr == function.name:
            return ast.unparse(call.func.value) if self.class_of(call.func.value, scope) is owner else None
        if function.name in ("forward", "__call__") and self.class_of(call.func, scope) is owner:
            return called
        return None

    def _text(self, node: ast.expr) -> str:
        found = self._written.get(id(node))
        if found is None:
            found = self._written[id(node)] = ast.unparse(node)
        return found

    def _assigned_to(self, body: Sequence[ast.stmt], name: str) -> list[ast.expr]:
        """Return what is assigned to a name (or to ``self.attribute``, in any method) in a body."""
        key = id(body), "." in name
        known = self._assigned.get(key)
        if known is None:
            known = self._assigned[key] = _assignments(body, inner="." in name)
        return known.get(name, [])

    def _aliases(self, qualname: str) -> set[str]:
        """Return the top-level names that are bound to a function."""
        assigned = (s for s in self._tree.body if isinstance(s, ast.Assign) and ast.unparse(s.value) == qualname)
        return {target.id for s in assigned for target in s.targets if isinstance(target, ast.Name)}

    def class_of(self, node: ast.expr, scope: Scope, depth: int = 0) -> ast.ClassDef | None:
        """Return the class of the file that an expression is an instance of; None where it cannot be told."""
        if depth > _DEPTH:
            return None
        if depth:
            return self._find_class(node, scope, depth)
        key = id(node), id(scope.function), id(scope.owner)
        if key not in self._told:
            self._told[key] = self._find_class(node, scope, 0)
        return self._told[key]

    def _find_class(self, node: ast.expr, scope: Scope, depth: int) -> ast.ClassDef | None:
        if isinstance(node, ast.Call):
            made = self._by_name.get(self._text(node.func))
            if made is None and isinstance(node.func, ast.Attribute) and node.func.attr in SAME_OBJECT:
                return self.class_of(node.func.value, scope, depth + 1)
            return made
        if isinstance(node, ast.Attribute):
            owner = self.class_of(node.value, scope, depth + 1)
            values = self._assigned_to(owner.body, f"self.{node.attr}") if owner else ()
            return self._first(values, Scope(None, owner, ()), depth)
        return self._class_of_name(node.id, scope, depth) if isinstance(node, ast.Name) else None

    def _class_of_name(self, name: str, scope: Scope, depth: int) -> ast.ClassDef | None:
        if scope.function is None:
            return self._first(self._assigned_to(self._tree.body, name), scope, depth)
        arguments = scope.function.args
        parameters = [*arguments.posonlyargs, *arguments.args]
        if scope.owner is not None and parameters and parameters[0].arg == name:
            return scope.owner
        local = self._first(self._assigned_to(scope.function.body, name), scope, depth)
        if local is not None:
            return local
        parameter = next((p for p in (*parameters, *arguments.kwonlyargs) if p.arg == name), None)
        if parameter is None:
            return self._first(self._assigned_to(self._tree.body, name), Scope(None, None, ()), depth)
        annotated = self._by_name.get(ast.unparse(parameter.annotation).strip("'")) if parameter.annotation else None
        return annotated or self._class_of_parameter(scope, name, parameters, depth)

    def _class_of_parameter(
        self, scope: Scope, name: str, parameters: list[ast.arg], depth: int
    ) -> ast.ClassDef | None:
        """Return the class of what callers pass for a parameter of a function."""
        if scope.function is None or (scope.owner is not None and not scope.function.name.startswith("test")):
            return None
        index = next((i for i, p in enumerate(parameters) if p.arg == name), len(parameters))
        fixture = self._fixtures.get(name) if scope.function.name.startswith("test") else None
        if fixture is not None:
            given = [value for s in fixture.body if (value := given_by(s)) is not None]
            return self._first(given, Scope(fixture, None, ()), depth)
        for call, caller in self.calls:
            if self._text(call.func) == scope.function.name and caller.function is not scope.function:
                keyword = next((k.value for k in call.keywords if k.arg == name), None)
                passed = keyword or (call.args[index] if index < len(call.args) else None)
                found = self.class_of(passed, caller, depth + 1) if passed else None
                if found:
                    return found
        return None

    def _first(self, values: Sequence[ast.expr], scope: Scope, depth: int) -> ast.ClassDef | None:
        return next((c for value in values if (c := self.class_of(value, scope, depth + 1))), None)


def constructor_text(tree: ast.Module, owner: ast.ClassDef) -> str | None:
    """Return the call that makes an object of a class without arguments; None where the class wants some.

    None too of one whose methods are abstract.
    """
    names = {id(node): name for name, node in definitions(tree.body)}
    if any("dataclass" in ast.unparse(decorator) for decorator in owner.decorator_list) or _is_left_abstract(owner):
        return None
    classes = {name: node for name, node in definitions(tree.body) if isinstance(node, ast.ClassDef)}
    waiting, seen = [owner], set[int]()
    while waiting:
        node = waiting.pop(0)
        if id(node) in seen:
            continue
        seen.add(id(node))
        made = constructor_of(node)
        if made is not None:
            required = len(made.args.posonlyargs) + len(made.args.args) - 1 - len(made.args.defaults)
            free = required <= 0 and all(default is not None for default in made.args.kw_defaults)
            return f"{names[id(owner)]}()" if free else None
        waiting += [classes[name] for base in node.bases if (name := ast.unparse(base)) in classes]
    return f"{names[id(owner)]}()"


def _is_left_abstract(owner: ast.ClassDef) -> bool:
    methods = (node for node in owner.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return any(ast.unparse(d).rpartition(".")[2].startswith("abstract") for m in methods for d in m.decorator_list)


def objects_of(tree: ast.Module, owner: ast.ClassDef) -> Iterator[str]:
    """Yield the names of top-level variables, main blocks included, that hold an object of a class."""
    classes = Classes(tree)
    for node in _own_statements(tree.body):
        if isinstance(node, ast.Assign) and classes.class_of(node.value, Scope(None, None, ())) is owner:
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _assignments(body: Sequence[ast.stmt], *, inner: bool) -> dict[str, list[ast.expr]]:
    """Return what is assigned in a body, by what it is assigned to; ``inner``: also in its functions."""
    nodes = (n for s in body for n in ast.walk(s)) if inner else _own_statements(body)
    found: dict[str, list[ast.expr]] = {}
    for node in nodes:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
        if value is not None:
            for name in {ast.unparse(target) for target in targets if target is not None}:
                found.setdefault(name, []).append(value)
    return found


def _own_statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for block in blocks(statement):
                yield from _own_statements(block)


def _calls(body: Sequence[ast.stmt], scope: Scope) -> Iterator[tuple[ast.Call, Scope]]:
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if scope.function is None:
                yield from _calls(statement.body, Scope(statement, scope.owner, ()))
        elif isinstance(statement, ast.ClassDef):
            if scope.function is None:
                yield from _calls(statement.body, Scope(None, statement, ()))
        else:
            inside = Scope(scope.function, scope.owner, (*scope.way, statement))
            yield from ((call, inside) for call in _own_calls(statement))
            for block in blocks(statement):
                yield from _calls(block, inside)


def _own_calls(statement: ast.stmt) -> Iterator[ast.Call]:
    """Yield the calls in a statement's own expressions, outer ones first."""
    waiting: list[ast.AST] = [n for n in ast.iter_child_nodes(statement) if not _is_block(n)]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.Call):
            yield node
        if not isinstance(node, ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def _is_block(node: ast.AST) -> bool:
    return isinstance(node, (ast.stmt, ast.excepthandler, ast.match_case))
