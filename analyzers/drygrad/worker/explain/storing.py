"""Where the text stores something in what lives on: in the function at hand, in a method, or at the call of that."""

from __future__ import annotations

import ast
import dis
import re
from collections.abc import Iterator
from functools import lru_cache
from types import FrameType
from typing import Any, NamedTuple

from drygrad.worker.lines import Instruction, Lines
from drygrad.worker.run import Place
from drygrad.worker.texts import tree_of

_ADDS = frozenset({"append", "appendleft", "add", "extend", "insert", "put", "push"})
_LOADS = (ast.Name, ast.Attribute)


class _Store(NamedTuple):
    """A statement that stores something under an attribute, what it stores, and the function it stands in."""

    statement: ast.stmt
    stored: ast.AST
    function: Any
    """None at module level."""


def stored_here(lines: Lines, frame: FrameType, name: str) -> Place | None:
    """Return where a function changes a name: the next line, or the last before, that appends to it or adds to it."""
    here = lines.place(Instruction(frame.f_code, frame.f_lasti))
    source = lines.source(here.path) if here else None
    if here is None or source is None:
        return None
    first = frame.f_code.co_firstlineno if frame.f_code.co_name != "<module>" else 1
    plain = re.escape(name)
    for line in (*range(here.line, len(source) + 1), *range(here.line - 1, first - 1, -1)):
        text = source[line - 1]
        bare = text.strip()
        if re.match(rf"([\w., ]+,\s*)?{plain}\s*(\.append|\.add|\.extend|\+=|\[|=.*\b{plain}\b)", bare):
            return Place(here.path, line, text.index(bare), line, len(text.rstrip()))
    return None


def stored_in_method(lines: Lines, frame: FrameType, name: str, function: str | None = None) -> Place | None:
    """Return the one statement of the file, else of all, that stores under an attribute; its call, if that gives what.

    ``function`` is the name of the function that did it, where it is known.
    """
    attribute = re.sub(r"(\[[^]]*\])+$", "", name).rpartition(".")[2]
    if attribute == name:
        return None
    texts = {path: "\n".join(source) for path, source in lines.texts.items()}
    found = [(path, store) for path, text in texts.items() for store in _stores(text, attribute) if store.function]
    found = [(path, store) for path, store in found if function in (None, store.function.name)]
    stores = [each for each in found if each[0] == frame.f_code.co_filename] or found
    if len(stores) != 1:
        return None
    path, store = stores[0]
    record = _record(tree_of(texts[path]), store.stored)
    return _handing_call(lines, frame, name, store) or _place(lines, path, record or store.statement)


def _record(tree: ast.AST, stored: ast.AST) -> ast.Return | None:
    """Return where a function makes the dict that is stored as it comes: what it puts in there is what is kept."""
    call = stored.elts[0] if isinstance(stored, ast.Tuple) and len(stored.elts) == 1 else stored
    if not isinstance(call, ast.Call):
        return None
    called = getattr(call.func, "attr", getattr(call.func, "id", ""))
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == called]
    returns = [n for function in functions for n in ast.walk(function) if isinstance(n, ast.Return)]
    return returns[0] if len(functions) == len(returns) == 1 and isinstance(returns[0].value, ast.Dict) else None


def stored_by_function(lines: Lines, frame: FrameType, name: str) -> Place | None:
    """Return the one call, in the function at hand, that hands a name to a function which stores in it."""
    path = frame.f_code.co_filename
    tree = tree_of("\n".join(lines.source(path) or []))
    calls = (n for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name))
    near = [call for call in calls if _is_within(call, frame) and any(map(_stores_in, *_handed(lines, call, name)))]
    return _place(lines, path, near[0]) if len(near) == 1 else None


def _handed(lines: Lines, call: ast.Call, name: str) -> tuple[list[Any], list[str]]:
    """Return the functions that a call may mean, each with its parameter that stands for a name there."""
    called: Any = call.func
    functions: list[Any] = []
    parameters: list[str] = []
    for source in lines.texts.values():
        for node in ast.walk(tree_of("\n".join(source))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == called.id:
                own = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
                given = [*zip(own, call.args), *((str(k.arg), k.value) for k in call.keywords)]
                for parameter, value in given:
                    if isinstance(value, ast.Name) and value.id == name:
                        functions.append(node)
                        parameters.append(parameter)
    return functions, parameters


def _stores_in(function: ast.AST, parameter: str) -> bool:
    """Say whether a function stores something in what a parameter is."""
    for node in ast.walk(function):
        target: Any = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ADDS:
            target = node.func.value
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            target = node.targets[0].value
        elif isinstance(node, ast.AugAssign):
            target = node.target
        while isinstance(target, (ast.Subscript, ast.Attribute, ast.Call)):
            target = target.func if isinstance(target, ast.Call) else target.value
        if isinstance(target, ast.Name) and target.id == parameter:
            return True
    return False


def _handing_call(lines: Lines, frame: FrameType, name: str, store: _Store) -> Place | None:
    """Return the call, in the function at hand, that hands a method what it stores as it is given."""
    parameters = {a.arg for a in (*store.function.args.args, *store.function.args.kwonlyargs)} - {"self"}
    used = _used(store.stored)
    own = _parts(store.function) | _assigned(store.function)
    if not used & parameters or used & own or frame.f_code.co_name == store.function.name:
        return None
    path, owner = frame.f_code.co_filename, name.rpartition(".")[0]
    source = lines.source(path) or []
    calls = [
        node
        for node in ast.walk(tree_of("\n".join(source)))
        if isinstance(node, ast.Call) and _calls(node, owner, store.function.name) and _is_within(node, frame)
    ]
    return _place(lines, path, calls[0]) if len(calls) == 1 else None


def _used(stored: ast.AST) -> set[str]:
    """Return the names that an expression is computed of; those that only choose a part are none of them."""
    chosen = {id(n) for s in ast.walk(stored) if isinstance(s, ast.Subscript) for n in ast.walk(s.slice)}
    return {n.id for n in ast.walk(stored) if isinstance(n, ast.Name) and id(n) not in chosen}


def _parts(function: ast.AST) -> set[str]:
    """Return the names that loops of a function bind: what they stand for no call hands over one by one."""
    loops = (n.target for n in ast.walk(function) if isinstance(n, (ast.For, ast.AsyncFor, ast.comprehension)))
    return {n.id for target in loops for n in ast.walk(target) if isinstance(n, ast.Name)}


def _assigned(function: ast.AST) -> set[str]:
    """Return the names that a function computes itself."""
    return {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _calls(node: ast.Call, owner: str, method: str) -> bool:
    if not isinstance(node.func, ast.Attribute) or not (node.args or node.keywords):
        return False
    return node.func.attr == method and ast.unparse(node.func.value) == owner


def _is_within(node: ast.Call, frame: FrameType) -> bool:
    last = max((line for _, line in dis.findlinestarts(frame.f_code) if line), default=0)
    return frame.f_code.co_firstlineno <= node.lineno <= last


def _place(lines: Lines, path: str, node: Any) -> Place:
    return lines.place_of_node(path, node)


@lru_cache(maxsize=256)
def _stores(text: str, attribute: str) -> tuple[_Store, ...]:
    return tuple(_stores_below(tree_of(text), attribute, None))


def _stores_below(node: ast.AST, attribute: str, function: Any) -> Iterator[_Store]:
    for child in ast.iter_child_nodes(node):
        inner = child if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) else function
        stored = _stored(child, attribute)
        if stored is not None and isinstance(child, ast.stmt):
            yield _Store(child, stored, inner)
        yield from _stores_below(child, attribute, inner)


def _stored(node: ast.AST, attribute: str) -> ast.AST | None:
    """Return what a statement stores under an attribute beside, or together with, what is there."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        call = node.value
        named = isinstance(call.func, ast.Attribute) and call.func.attr in _ADDS and _names(call.func.value, attribute)
        return ast.Tuple(call.args, ast.Load()) if named else None
    if isinstance(node, ast.AugAssign):
        return node.value if _names(node.target, attribute) else None
    if isinstance(node, ast.Assign):
        targets = [target for target in node.targets if _names(target, attribute)]
        into_part = any(isinstance(target, ast.Subscript) for target in targets)
        return node.value if targets and (into_part or _names(node.value, attribute)) else None
    return None


def _names(node: ast.AST, attribute: str) -> bool:
    """Say whether an expression speaks of an attribute."""
    return any(isinstance(n, ast.Attribute) and n.attr == attribute for n in ast.walk(node))
