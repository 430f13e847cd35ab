"""What a module binds at its top level, reduced to names: small enough to keep for every module that was read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from drygrad.parsing import parsed, parsed_expression

FLUENT = frozenset({
    "to", "cuda", "cpu", "train", "eval", "half", "float", "double", "bfloat16", "requires_grad_", "share_memory",
    "type",
})  # fmt: skip
"""Methods of modules and tensors that return an object of the same class."""


class Value(NamedTuple):
    """An expression: another name, a call of one, something of no interest (plain), or too hard to read (unclear).

    ``fluent`` says that methods like ``.to(device)`` stood around it, which keep the class of modules and tensors only.
    """

    kind: Literal["name", "call", "plain", "unclear"]
    name: str = ""
    fluent: bool = False


_SETTERS = re.compile(rb"\b(set_default_(?:device|dtype|tensor_type))\s*\(")
PLAIN = Value("plain")
UNCLEAR = Value("unclear")


class Decorator(NamedTuple):
    """A decorator's name; ``off`` where it is called with a literal False."""

    name: str
    off: bool


@dataclass(frozen=True, slots=True)
class Import:
    """A name that comes from another module; the target starts with dots where the import is relative."""

    target: str


@dataclass(frozen=True, slots=True)
class Class:
    """A class and its bases as written; None stands for a base that is no dotted name."""

    bases: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """A function, its decorators, its return annotation and the values that it returns."""

    decorators: tuple[Decorator, ...]
    annotation: str | None
    results: tuple[Value, ...]


Binding = Import | Class | Function | Value


@dataclass(slots=True)
class Outline:
    """A module: its names, the modules that it imports everything from, and ``__all__`` where that is literal."""

    bindings: dict[str, Binding] = field(default_factory=dict[str, Binding])
    stars: list[str] = field(default_factory=list[str])
    exports: frozenset[str] | None = None
    setters: frozenset[str] = frozenset()
    """The functions that it calls, somewhere, to change a default of torch's: ``set_default_device``."""

    def exported(self, name: str) -> bool:
        """Say whether ``from module import *`` brings the name."""
        return name in self.exports if self.exports is not None else not name.startswith("_")


def outline_of(text: bytes) -> Outline:
    """Parse a module; a ValueError says that it is not Python."""
    outline = Outline(setters=frozenset(name.decode() for name in _SETTERS.findall(text)))
    try:
        _read_block(outline, parsed(text).body, certain=True)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(str(error)) from error
    return outline


def _read_block(outline: Outline, body: Iterable[ast.stmt], *, certain: bool) -> None:
    for statement in body:
        if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
            outline.stars.append(_module_of(statement))
        for name, binding in _bindings_of(statement):
            if certain or name not in outline.bindings:
                outline.bindings[name] = binding
        if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign):
            _read_exports(outline, statement)
        for block, sure in _blocks_of(statement):
            _read_block(outline, block, certain=certain and sure)


def _blocks_of(statement: ast.stmt) -> Iterator[tuple[list[ast.stmt], bool]]:
    """Yield the blocks within; what stands in an alternative does not replace what was bound before it."""
    match statement:
        case ast.If(body=body, orelse=orelse):
            yield body, False
            yield orelse, False
        case ast.Try(body=body, orelse=orelse, finalbody=finalbody, handlers=handlers):
            yield body, True
            yield from ((handler.body, False) for handler in handlers)
            yield orelse, True
            yield finalbody, True
        case ast.With(body=body) | ast.For(body=body) | ast.While(body=body):
            yield body, True
        case _:
            pass


def _bindings_of(statement: ast.stmt) -> Iterator[tuple[str, Binding]]:
    match statement:
        case ast.Import():
            for alias in statement.names:
                yield (
                    alias.asname or alias.name.split(".")[0],
                    Import(alias.name if alias.asname else alias.name.split(".")[0]),
                )
        case ast.ImportFrom():
            module = _module_of(statement)
            for alias in statement.names:
                if alias.name != "*":
                    yield alias.asname or alias.name, Import(_joined(module, alias.name))
        case ast.ClassDef():
            yield statement.name, Class(tuple(type_name(base) for base in statement.bases))
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield statement.name, _function(statement)
        case ast.Assign(targets=targets, value=value):
            yield from ((target.id, value_of(value)) for target in targets if isinstance(target, ast.Name))
            yield from ((name, UNCLEAR) for target in targets for name in _unpacked(target))
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield name, value_of(value)
        case _:
            pass


def _module_of(statement: ast.ImportFrom) -> str:
    return "." * statement.level + (statement.module or "")


def _joined(module: str, name: str) -> str:
    return module + name if module.endswith(".") else f"{module}.{name}"


def _unpacked(target: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Tuple | ast.List):
        yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


def _read_exports(outline: Outline, statement: ast.Assign | ast.AugAssign | ast.AnnAssign) -> None:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    if not any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
        return
    if isinstance(statement.value, ast.List | ast.Tuple):
        names = {e.value for e in statement.value.elts if isinstance(e, ast.Constant) and isinstance(e.value, str)}
        before = outline.exports if isinstance(statement, ast.AugAssign) else frozenset[str]()
        outline.exports = None if before is None else before | names
    else:
        outline.exports = None


def dotted(node: ast.expr | None) -> str | None:
    """Return ``a.b.c`` for such an expression, None for any other."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attribute):
            prefix = dotted(value)
            return prefix and f"{prefix}.{attribute}"
        case _:
            return None


def type_name(node: ast.expr | None) -> str | None:
    """Return the dotted name of a base or an annotation, its type arguments left out."""
    return dotted(node.value if isinstance(node, ast.Subscript) else node)


def value_of(node: ast.expr) -> Value:
    """Reduce an expression to what a look-up can follow."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr=attribute)) if attribute in FLUENT and dotted(inner) is None:
            value = value_of(inner)
            return value._replace(fluent=True) if value.kind == "call" else value
        case ast.Call(func=function):
            name = dotted(function)
            return Value("call", name) if name else UNCLEAR
        case ast.Name() | ast.Attribute():
            name = dotted(node)
            return Value("name", name) if name else UNCLEAR
        case ast.IfExp() | ast.BoolOp() | ast.Subscript() | ast.Await() | ast.NamedExpr():
            return UNCLEAR
        case _:
            return PLAIN


def _annotation(node: ast.expr | None) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            node = parsed_expression(node.value)
        except SyntaxError:
            return None
    return type_name(node)


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Function:
    decorators = tuple(_decorators(node.decorator_list))
    if isinstance(node, ast.AsyncFunctionDef):
        return Function(decorators, None, (PLAIN,))
    return Function(decorators, _annotation(node.returns), tuple(dict.fromkeys(_results(node))))


def _decorators(nodes: Iterable[ast.expr]) -> Iterator[Decorator]:
    for node in nodes:
        arguments = [*node.args, *(k.value for k in node.keywords)] if isinstance(node, ast.Call) else []
        name = dotted(node.func if isinstance(node, ast.Call) else node)
        if name:
            yield Decorator(name, any(isinstance(a, ast.Constant) and a.value is False for a in arguments))


def _results(function: ast.FunctionDef) -> Iterator[Value]:
    """Yield the values returned, a local variable replaced by whatever it may hold."""
    nodes = list(_own_nodes(function))
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in nodes):
        yield PLAIN
        return
    variables = _variables(function, nodes)
    for node in nodes:
        if isinstance(node, ast.Return):
            yield from _followed(PLAIN if node.value is None else value_of(node.value), variables)


def _own_nodes(function: ast.FunctionDef) -> Iterator[ast.AST]:
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))


def _variables(function: ast.FunctionDef, nodes: Iterable[ast.AST]) -> dict[str, list[Value]]:
    """Return what the local variables hold; a parameter is plain, since nothing tells what callers pass."""
    arguments = function.args
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    variables = {parameter.arg: [PLAIN] for parameter in parameters if parameter}
    read: set[ast.AST] = set()
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name) as target], value=value):
                read.add(target)
                variables.setdefault(name, []).append(value_of(value))
            case ast.AugAssign(target=ast.Name(id=name) as target):
                read.add(target)
                variables.setdefault(name, []).append(PLAIN)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                variables.setdefault(name, []).append(PLAIN)
            case ast.Name(id=name, ctx=ast.Store()) if node not in read:
                variables.setdefault(name, []).append(UNCLEAR)
            case _:
                pass
    return variables


def _followed(value: Value, variables: dict[str, list[Value]], steps: int = 4) -> Iterator[Value]:
    """Replace a local name by what it may hold, a few steps deep; one that is made from itself stays as it was."""
    root, _, attributes = value.name.partition(".")
    if value.kind not in ("name", "call") or root not in variables:
        yield value
        return
    remade = any(held.kind == "call" and _is_made_from(held, root) for held in variables[root])
    called = value.kind == "call" and attributes in FLUENT
    fluent = value.fluent or called or remade
    for held in variables[root]:
        if held.kind in ("plain", "unclear"):
            yield held
        elif (attributes or value.kind == "call") and not called:
            yield UNCLEAR
        elif _is_made_from(held, root):
            continue
        elif steps == 0:
            yield UNCLEAR
        else:
            yield from _followed(held._replace(fluent=held.fluent or fluent), variables, steps - 1)


def _is_made_from(value: Value, variable: str) -> bool:
    """Say whether it is ``net`` or ``net.to(device)`` of the variable ``net``."""
    root, _, attributes = value.name.partition(".")
    return root == variable and (attributes in FLUENT if value.kind == "call" else not attributes)
