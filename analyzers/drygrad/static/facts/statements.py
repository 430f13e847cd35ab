"""Statements: how they change what holds."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from drygrad.static.facts import calls, containers, contexts, modules, tensors, torch_calls
from drygrad.static.facts.canonical import canonical
from drygrad.static.facts.expressions import asks_for_gpu, automatic_device, evaluate
from drygrad.static.facts.frame import Frame, dotted_text
from drygrad.static.facts.iteration import element
from drygrad.static.facts.narrowing import narrow
from drygrad.static.facts.operations import OPERATORS
from drygrad.static.facts.quantities import as_tensor
from drygrad.static.facts.state import State, join_states
from drygrad.static.facts.values import (
    NONE,
    UNKNOWN,
    Constant,
    Function,
    Object,
    ParameterList,
    Reference,
    Sequence,
    Shape,
    Tensor,
    Value,
    is_unknown,
    join_all,
    options_of,
)
from drygrad.static.tree import walk

MAX_JOINS = 3
"""So often the ways into a loop are joined, but once in deep ones; what still changes after that is unknown."""
MAX_LOOP_DEPTH = 2
"""Loops nested deeper get fewer passes, for every level doubles the work."""
MAX_PASSES = 10
"""A chain of names handed on needs a pass for each; after so many all that the body binds is unknown."""


def execute_block(frame: Frame, body: list[ast.stmt]) -> bool:
    """Execute statements in order; say whether the end of the block is reached."""
    for statement in body:
        frame.record_modes(statement)
        if not execute(frame, statement):
            return False
    return True


def execute(frame: Frame, node: ast.stmt) -> bool:
    """Execute one statement; say whether what follows is reached."""
    try:
        return _EXECUTORS.get(type(node), _ignore)(frame, node) is not False
    except RecursionError:  # an expression nested deeper than Python's stack: nothing is known of it
        return True


def _ignore(frame: Frame, node: ast.stmt) -> None:
    pass


def _expression(frame: Frame, node: ast.Expr) -> None:
    evaluate(frame, node.value)


def _assign(frame: Frame, node: ast.Assign) -> None:
    value = evaluate(frame, node.value)
    for target in node.targets:
        calls.bind_target(frame, target, value)
        _refine_unpacked_shape(frame, target, node.value)


def _refine_unpacked_shape(frame: Frame, target: ast.expr, value: ast.expr) -> None:
    """``b, t, c = x.shape`` tells the rank of x and names its sizes."""
    if not isinstance(target, ast.Tuple) or not all(isinstance(e, ast.Name) for e in target.elts):
        return
    owner = containers.shape_owner(value)
    tensor = frame.look_up(owner) if owner else UNKNOWN
    if is_unknown(tensor) and isinstance(value, ast.Call):  # only a tensor's size can be called
        tensor = Tensor()
    if owner and isinstance(tensor, Tensor) and tensor.shape is None:
        names = [e.id for e in target.elts if isinstance(e, ast.Name)]
        symbols = tuple(f"{name}@{target.lineno}" if name != "_" else None for name in names)
        frame.bind(owner, replace(tensor, shape=symbols))
        for name, symbol in zip(names, symbols, strict=True):
            frame.bind(name, containers.size(symbol))


def _ann_assign(frame: Frame, node: ast.AnnAssign) -> None:
    declared = calls.annotated(frame, node.annotation, None)
    value = evaluate(frame, node.value) if node.value is not None else declared
    calls.bind_target(frame, node.target, declared if is_unknown(value) and not is_unknown(declared) else value)


def _aug_assign(frame: Frame, node: ast.AugAssign) -> None:
    left = evaluate(frame, node.target)
    right = evaluate(frame, node.value)
    operation = OPERATORS[type(node.op).__name__]
    if isinstance(left, Tensor):
        result = tensors.write(frame, node, node.target, operation, left, (right,))
        if isinstance(node.target, ast.Subscript):
            tensors.widen_items(frame, node.target, result)
            return
    elif isinstance(right, Tensor):
        result = tensors.accumulated(frame, node, left, right, operation)
    elif isinstance(left, Sequence):
        result = UNKNOWN
    else:
        result = tensors.python_number(node, operation, left, right)
    calls.bind_target(frame, node.target, result)


def _delete(frame: Frame, node: ast.Delete) -> None:
    for target in node.targets:
        name = dotted_text(target)
        if name is not None:
            frame.state.names.pop(name, None)


def _return(frame: Frame, node: ast.Return) -> bool:
    frame.leave(evaluate(frame, node.value) if node.value is not None else NONE)
    return False


def _raise(frame: Frame, node: ast.Raise) -> bool:
    if node.exc is not None:
        evaluate(frame, node.exc)
    return False


def _assert(frame: Frame, node: ast.Assert) -> None:
    evaluate(frame, node.test)
    frame.state = _narrowed(frame, frame.state, node.test, True)


def _break(frame: Frame, node: ast.Break) -> bool:
    frame.breaks.append(frame.state)
    return False


def _continue(frame: Frame, node: ast.Continue) -> bool:
    frame.continues.append(frame.state)
    return False


def _import(frame: Frame, node: ast.Import) -> None:
    for alias in node.names:
        if alias.asname:
            frame.bind(alias.asname, Reference(frame.module.imported(canonical(alias.name))))
        else:
            root = alias.name.split(".")[0]
            frame.bind(root, Reference(frame.module.imported(root)))


def _import_from(frame: Frame, node: ast.ImportFrom) -> None:
    package = "." * node.level + (node.module or "")
    for alias in node.names:
        if alias.name == "*":
            frame.module.star_import()
            continue
        separator = "" if package.endswith(".") or not package else "."
        name = frame.module.imported(canonical(f"{package}{separator}{alias.name}"))
        frame.bind(alias.asname or alias.name, torch_calls.dtype_or_reference(name))


def _function(frame: Frame, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    for decorator in node.decorator_list:
        evaluate(frame, decorator)
    for default in (*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)):
        evaluate(frame, default)
    function = Function(node, scope=frame if frame.function else frame.module.scope)
    frame.module.add_function(function, frame)
    frame.bind(node.name, function)


def _class(frame: Frame, node: ast.ClassDef) -> None:
    for expression in (*node.decorator_list, *(k.value for k in node.keywords)):
        evaluate(frame, expression)
    bases = tuple(evaluate(frame, base) for base in node.bases)
    outer, outer_body = frame.state, frame.in_class_body
    frame.state, frame.in_class_body = State(dict(outer.names), outer.grad, outer.autocast), True
    for statement in node.body:
        execute(frame, statement)
    members = {name: v for name, v in frame.state.names.items() if outer.names.get(name) is not v}
    frame.state, frame.in_class_body = outer, outer_body
    frame.bind(node.name, frame.module.define_class(frame, node, bases, members))


def _if(frame: Frame, node: ast.If) -> bool:
    test = evaluate(frame, node.test)
    before = frame.state
    if isinstance(test, Constant):
        return execute_block(frame, node.body if test.value else node.orelse)
    frame.state = _narrowed(frame, before.copy(), node.test, True)
    end_of_body = _end_of(frame, node.body)
    frame.state = before
    frame.state = _narrowed(frame, before.copy(), node.test, False)
    end_of_else = _end_of(frame, node.orelse)
    joined = join_states(end_of_body, end_of_else)
    if joined is None:
        return False
    if end_of_body is not None and end_of_else is not None and asks_for_gpu(node.test):
        _join_devices(node.test, end_of_body, end_of_else, joined)
    frame.state = joined
    return True


def _end_of(frame: Frame, body: list[ast.stmt]) -> State | None:
    """Execute a block and return the state at its end; None where the end is not reached."""
    return frame.state if execute_block(frame, body) else None


def _join_devices(test: ast.expr, body: State, other: State, joined: State) -> None:
    """``if torch.cuda.is_available(): device = "cuda"`` is the conditional expression, spelled out."""
    for name, value in joined.names.items():
        if value is UNKNOWN or not isinstance(value, (Tensor, Object)):
            first, second = body.names.get(name), other.names.get(name)
            if first is not None and second is not None and first != second:
                device = automatic_device(test, first, second)
                if device is not None:
                    joined.names[name] = device


def _narrowed(frame: Frame, state: State, test: ast.expr, holds: bool) -> State:
    """Return what also holds where a test came out so: ``x is None``, ``not``, ``and``."""
    narrow(frame, state, test, holds)
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _narrowed(frame, state, operand, not holds)
        case ast.BoolOp(op=ast.Or(), values=values) if not holds:
            for value in values:
                state = _narrowed(frame, state, value, False)
        case ast.BoolOp(op=ast.And(), values=values) if holds:
            for value in values:
                state = _narrowed(frame, state, value, True)
        case ast.Compare(
            left=ast.Name(id=name), ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]
        ):
            is_none = isinstance(op, ast.Is) == holds
            state.names[name] = NONE if is_none else _without_none(frame.look_up(name))
        case ast.Name(id=name) if holds:
            state.names[name] = _without_none(frame.look_up(name))
        case ast.Call(args=[ast.Name(id=name), *others]) if holds and _tests_for_tensor(frame, test, others):
            if is_unknown(known := frame.look_up(name)):
                state.names[name] = as_tensor(known)
        case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=name), kind]) if holds:
            if isinstance(frame.look_up(name), Tensor) and not _may_be_tensor(evaluate(frame, kind)):
                state.names[name] = UNKNOWN
        case ast.Compare(left=measured, ops=[operator], comparators=[ast.Constant(value=int(rank))]):
            name = _whose_dimensions(measured)
            known = frame.look_up(name) if name is not None else None
            if name is not None and isinstance(known, Tensor):
                equal = isinstance(operator, ast.Eq if holds else ast.NotEq)
                state.names[name] = replace(known, shape=_with_rank(known.shape, rank if equal else None))
        case _:
            pass
    return state


def _tests_for_tensor(frame: Frame, test: ast.Call, others: list[ast.expr]) -> bool:
    """Say whether a call is ``torch.is_tensor(x)`` or ``isinstance(x, torch.Tensor)``."""
    match evaluate(frame, test.func), [evaluate(frame, other) for other in others]:
        case Reference(name="torch.is_tensor"), []:
            return True
        case Reference(name="builtins.isinstance"), [Reference(name="torch.Tensor")]:
            return True
        case _:
            return False


def _may_be_tensor(kind: Value) -> bool:
    """Say whether objects of a class, or of one of several, may be tensors."""
    if isinstance(kind, Sequence):
        return kind.items is None or any(map(_may_be_tensor, kind.items))
    return not isinstance(kind, Reference) or kind.name.endswith(("Tensor", "Parameter", "Buffer"))


def _whose_dimensions(node: ast.expr) -> str | None:
    """Return the x of ``x.ndim``, ``x.dim()`` and ``len(x.shape)``."""
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr="ndim"):
            return name
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="dim" | "ndimension"), args=[], keywords=[]):
            return name
        case ast.Call(func=ast.Name(id="len"), args=[ast.Attribute(value=ast.Name(id=name), attr="shape")]):
            return name
        case _:
            return None


def _with_rank(shape: Shape | None, rank: int | None) -> Shape | None:
    """Return what a shape is where a test of its rank came out so; who asks may be called with others than we see."""
    if rank is None:
        return None
    return shape if shape is not None and len(shape) == rank else (None,) * rank


def _without_none(value: Value) -> Value:
    options = [option for option in options_of(value) if option != NONE]
    return join_all(options) if options else UNKNOWN


def _loop(frame: Frame, node: ast.For | ast.AsyncFor | ast.While, enter: Callable[[], None]) -> bool:
    breaks, continues = frame.breaks, frame.continues
    frame.loops += 1
    frame.state = _at_loop_head(frame, node, enter)
    frame.loops -= 1
    after = _end_of(frame, node.orelse)
    for left in frame.breaks:
        after = join_states(after, left)
    frame.breaks, frame.continues = breaks, continues
    if after is None:
        return False
    frame.state = after
    return True


def _at_loop_head(frame: Frame, node: ast.For | ast.AsyncFor | ast.While, enter: Callable[[], None]) -> State:
    """Pass the body until what holds at its head, on every way in, changes no more."""
    entry = head = frame.state
    joins, passes = (MAX_JOINS, MAX_PASSES) if frame.loops <= MAX_LOOP_DEPTH else (1, MAX_JOINS)
    for passed in range(passes):
        joined = head.joined(_end_of_pass(frame, node, head, enter))
        if joined.tells_as_much_as(head):
            return head
        head = joined if passed < joins else joined.without_changes_since(head)
    names = (n for statement in node.body for n in walk(statement) if isinstance(n, ast.Name))
    head = head.without_changes_since(entry).without(n.id for n in names if isinstance(n.ctx, ast.Store))
    _end_of_pass(frame, node, head, enter)
    return head


def _end_of_pass(
    frame: Frame, node: ast.For | ast.AsyncFor | ast.While, head: State, enter: Callable[[], None]
) -> State | None:
    """Return what holds where the body ends or continues, if this holds at the loop's head."""
    frame.breaks, frame.continues = [], []
    frame.state = head.copy()
    enter()
    end = _end_of(frame, node.body)
    for left in frame.continues:
        end = join_states(end, left)
    return end


def _for(frame: Frame, node: ast.For | ast.AsyncFor) -> bool:
    iterable = evaluate(frame, node.iter)
    item = element(frame, iterable, node.iter)
    ends = _loop(frame, node, lambda: calls.bind_target(frame, node.target, item))
    if isinstance(iterable, ParameterList) and isinstance(iterable.module, Object) and _freezes_each(node):
        match node.iter:
            case ast.Call(func=ast.Attribute(value=owner)):
                modules.rebind(frame, owner, replace(iterable.module, frozen=True))
            case _:
                pass
    return ends


def _freezes_each(node: ast.For | ast.AsyncFor) -> bool:
    """Say whether a loop over parameters freezes each, whatever its name: ``p.requires_grad = False``."""
    for statement in node.body:
        match statement:
            case ast.Assign(targets=[ast.Attribute(attr="requires_grad")], value=ast.Constant(value=False)):
                return True
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="requires_grad_"), args=[ast.Constant(value=False)])):
                return True
            case _:
                pass
    return False


def _while(frame: Frame, node: ast.While) -> bool:
    reached = _loop(frame, node, lambda: evaluate(frame, node.test) and None)
    endless = isinstance(node.test, ast.Constant) and node.test.value
    return reached and not (endless and not _has_break(node.body))


def _has_break(body: list[ast.stmt]) -> bool:
    for statement in body:
        if isinstance(statement, ast.Break):
            return True
        if isinstance(
            statement, (ast.For, ast.While, ast.AsyncFor, ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)
        ):
            continue
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            for child in getattr(statement, name, []):
                if _has_break([child] if isinstance(child, ast.stmt) else child.body):
                    return True
    return False


def _with(frame: Frame, node: ast.With | ast.AsyncWith) -> bool:
    grad, autocast = frame.state.grad, frame.state.autocast
    for item in node.items:
        manager = evaluate(frame, item.context_expr)
        contexts.enter(frame, manager)
        if item.optional_vars is not None:
            calls.bind_target(frame, item.optional_vars, manager)
    reached = execute_block(frame, node.body)
    frame.state.grad, frame.state.autocast = grad, autocast
    return reached


def _try(frame: Frame, node: ast.Try) -> bool:
    entry = frame.state.copy()
    reached = execute_block(frame, node.body)
    raised = entry.joined(frame.state.copy())
    end = _end_of(frame, node.orelse) if reached else None
    for handler in node.handlers:
        frame.state = raised.copy()
        end = join_states(end, _after_handler(frame, handler))
    if not node.finalbody:
        frame.state = frame.state if end is None else end
        return end is not None
    frame.state = raised.copy() if end is None else end.copy()
    return execute_block(frame, node.finalbody) and end is not None


def _after_handler(frame: Frame, handler: ast.ExceptHandler) -> State | None:
    if handler.type is not None:
        evaluate(frame, handler.type)
    if handler.name:
        frame.bind(handler.name, UNKNOWN)
    return _end_of(frame, handler.body)


def _match(frame: Frame, node: ast.Match) -> bool:
    evaluate(frame, node.subject)
    before = frame.state
    end = before.copy()
    for case in node.cases:
        frame.state = before.copy()
        for pattern in ast.walk(case.pattern):
            name = getattr(pattern, "name", None)
            if isinstance(name, str):
                frame.bind(name, UNKNOWN)
        if case.guard is not None:
            evaluate(frame, case.guard)
        end = end.joined(_end_of(frame, case.body))
    frame.state = end
    return True


_EXECUTORS: dict[type[ast.stmt], Callable[[Frame, Any], bool | None]] = {
    ast.Expr: _expression,
    ast.Assign: _assign,
    ast.AnnAssign: _ann_assign,
    ast.AugAssign: _aug_assign,
    ast.Delete: _delete,
    ast.Return: _return,
    ast.Raise: _raise,
    ast.Assert: _assert,
    ast.Break: _break,
    ast.Continue: _continue,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.ClassDef: _class,
    ast.If: _if,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.While: _while,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Try: _try,
    ast.Match: _match,
}
if sys.version_info >= (3, 11):
    _EXECUTORS[ast.TryStar] = _try
