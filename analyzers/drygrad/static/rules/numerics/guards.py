"""What makes a singular operation harmless: a test of the value, a repair of the result, no gradient to spoil."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal

from drygrad.static.context import Context, FunctionNode
from drygrad.static.facts.elementwise_ranges import COMPARISONS
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.operations import VIEWS
from drygrad.static.facts.values import Constant, Object, Quantity, Reference, Tensor, TorchCall, Value
from drygrad.static.loops import backwards_in
from drygrad.static.tree import walk

_OF_THE_FORM = frozenset(
    "shape ndim dtype device requires_grad training is_cuda dim size ndimension is_floating_point".split()
)
_BUILTINS_OF_THE_FORM = frozenset({"isinstance", "hasattr", "type", "callable"})
_CHOOSING = COMPARISONS | frozenset(
    "relu relu6 clamp clamp_min hardtanh maximum where masked_fill detach std norm cdist count_nonzero".split()
)
_APART = VIEWS | frozenset("add sub mul div pow square neg abs exp sqrt sum mean to float amax amin max min".split())
"""Operations whose backward leaves the gradients of other elements as they are, or stays at 0 where all are."""
_REPAIRS = frozenset("nan_to_num isnan isinf isfinite where masked_fill any all count_nonzero".split())


_RANKING_ALONE = frozenset({"argsort", "argmax", "argmin"})
_RANKING = _RANKING_ALONE | {"topk", "sort", "max", "min"}


def records_gradient(node: ast.expr | ast.stmt, ctx: Context, *tensors: Tensor | None) -> Literal["yes", "maybe", "no"]:
    """Say whether autograd records an operation on these tensors.

    It may in what a model computes forward, in a loss, and in functions that these call; elsewhere "no" also stands for
    not knowing.
    """
    if ctx.grad_enabled(ctx.statement(node)) is False:
        return "no"
    needed = [tensor.requires_grad for tensor in tensors if tensor is not None]
    if True in needed:
        return "yes"
    if needed and all(flag is False for flag in needed) and len(needed) == len(tensors):
        return "no"
    function = ctx.function(node)
    return "maybe" if function is not None and _serves_training(function, ctx) else "no"


def _serves_training(function: FunctionNode, ctx: Context, deepest: int = 3) -> bool:
    """Say whether a function is what a model or a loss computes, or is called by that with gradients recorded."""
    if _is_training_code(function, ctx):
        return True
    callers = {ctx.function(site.node) for site in ctx.callers(function) if site.grad is not False} if deepest else ()
    return any(_serves_training(c, ctx, deepest - 1) for c in callers if c is not None and c is not function)


def is_called_in_training(node: ast.expr | ast.stmt, ctx: Context) -> bool:
    """Say whether what a model computes, a loss or a step of training calls the function around a node."""
    function = ctx.function(node)
    if function is None or ctx.grad_enabled(ctx.statement(node)) is False:
        return False
    sites = [site.node for site in ctx.callers(function) if site.grad is not False]
    callers = [caller for caller in map(ctx.function, sites) if caller is not None and caller is not function]
    return any(_is_training_code(caller, ctx) or any(backwards_in(caller, ctx)) for caller in callers)


def _is_training_code(function: FunctionNode, ctx: Context) -> bool:
    """Say whether a function is a loss or a module's: but ``__init__`` computes constants."""
    owner = ctx.parent(function)
    if function.name == "__init__":
        return False
    return (
        function.name in ("forward", "training_step")
        or "loss" in function.name.lower()
        or (isinstance(owner, ast.ClassDef) and ctx.is_module_class(owner))
    )


def ends_gradient(value: Value, deepest: int = 8) -> bool:
    """Say whether backward drops what arrives where a value is 0: relu and clamp choose, they do not multiply."""
    origin = value.origin if isinstance(value, (Tensor, Quantity)) and deepest else None
    if origin is None:
        return isinstance(value, Constant)
    if origin.operation in _CHOOSING:
        return True
    if origin.operation not in _APART:
        return False  # a softmax or a product hands NaN on to elements that are not chosen
    inner = [operand for operand in origin.operands if isinstance(operand, (Tensor, Quantity))]
    return bool(inner) and all(ends_gradient(operand, deepest - 1) for operand in inner)


def is_guarded(node: ast.expr | ast.stmt, subject: ast.expr, ctx: Context) -> bool:
    """Say whether the code around an operation tests the subject's value, or repairs what comes of it, anywhere."""
    scope = ctx.function(node) or ctx.tree
    wanted = set(names_in(subject, ctx)) | _names_of_origin(subject, ctx)
    made = _comparisons_behind(ctx.quantity(subject))
    tests = (test for test in _tests_in(scope, ctx) if test not in made)
    return any(not wanted.isdisjoint(names_in(test, ctx)) for test in tests) or any(
        ctx.call(ancestor) is not None and _is_repair(ancestor, ctx)
        for ancestor in ctx.ancestors(node)
        if isinstance(ancestor, ast.Call)
    )


def stands_within(node: ast.AST, operation: str, ctx: Context) -> bool:
    """Say whether an expression is part of what a call of one of torch's operations is given."""
    calls = (ctx.call(a) for a in ctx.ancestors(node) if isinstance(a, ast.Call))
    return any(call is not None and call.operation == operation for call in calls)


def is_only_ranked(node: ast.expr, ctx: Context) -> bool:
    """Say whether a value, or what arithmetic makes of it, is only put in order: there -inf is the least, no fault."""
    while isinstance(parent := ctx.parent(node), (ast.BinOp, ast.UnaryOp)):
        node = parent
    match parent:
        case ast.Assign(targets=[ast.Name(id=name)]):
            scope = ctx.function(node) or ctx.tree
            reads = [n for n in walk(scope) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
            return bool(reads) and all(_is_ranked(read, ctx) for read in reads)
        case _:
            return _is_ranked(node, ctx)


def _is_ranked(node: ast.expr, ctx: Context) -> bool:
    """Say whether an expression is ordered: only the positions of what comes out are read of ``topk`` and ``sort``."""
    match ctx.parent(node):
        case ast.Call(args=args) as call if node in args[:1]:
            pass
        case ast.Attribute() as method if isinstance(call := ctx.parent(method), ast.Call):
            pass
        case _:
            return False
    made = ctx.call(call)
    if made is None or made.operation not in _RANKING:
        return False
    match ctx.parent(call):
        case ast.Attribute(attr="indices") | ast.Subscript(slice=ast.Constant(value=1)):
            return True
        case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id="_"), _])]):
            return True
        case _:
            return made.operation in _RANKING_ALONE


def _names_of_origin(subject: ast.expr, ctx: Context) -> set[str]:
    value = ctx.quantity(subject)
    origin = value.origin if isinstance(value, (Tensor, Quantity)) else None
    if origin is None or origin.node is subject:
        return set()
    return set(names_in(origin.node, ctx))


def _comparisons_behind(value: Value, deepest: int = 5) -> set[ast.AST]:
    """Return the comparisons that a value counts: they are no tests of it."""
    origin = value.origin if isinstance(value, (Tensor, Quantity)) and deepest else None
    if origin is None:
        return set()
    if origin.operation in COMPARISONS:
        return {origin.node}
    return set[ast.AST]().union(*(_comparisons_behind(operand, deepest - 1) for operand in origin.operands))


def _tests_in(scope: ast.AST, ctx: Context) -> Iterator[ast.expr]:
    for node in walk(scope):
        match node:
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
                yield test
            case ast.Compare():
                yield node
            case ast.Call() if _is_repair(node, ctx):
                yield node
            case _:
                pass


def _is_repair(node: ast.Call, ctx: Context) -> bool:
    call: TorchCall | None = ctx.call(node)
    if call is not None:
        return call.operation in _REPAIRS
    return isinstance(node.func, ast.Attribute) and node.func.attr in _REPAIRS


def names_in(node: ast.AST, ctx: Context) -> Iterator[str]:
    """Yield the names of which an expression reads the value, not merely the shape, type or device."""
    match node:
        case ast.Compare(ops=[ast.Is() | ast.IsNot()]):
            return
        case ast.Call(func=ast.Name(id=name)) if name in _BUILTINS_OF_THE_FORM:
            return
        case ast.Attribute(attr=name) if name in _OF_THE_FORM:
            return
        case ast.Call(func=ast.Attribute(attr=name)) if name in _OF_THE_FORM:
            return
        case ast.Call(func=ast.Attribute(value=owner)):
            yield from names_in(owner, ctx)
            children = [*node.args, *(keyword.value for keyword in node.keywords)]
        case ast.Name() | ast.Attribute() if (text := dotted_text(node)) is not None:
            if text != "self" and not isinstance(ctx.value(node), (Reference, Object)):
                yield text
            return
        case _:
            children = list(ast.iter_child_nodes(node))
    for child in children:
        yield from names_in(child, ctx)
