"""Writes in place: which of them autograd counts, and how each is written out of place."""

from __future__ import annotations

import ast

from drygrad.model import Edit, Fix, Safety, Span
from drygrad.static.context import Context
from drygrad.static.facts.events import InplaceWrite
from drygrad.static.facts.operations import VIEWS
from drygrad.static.facts.values import Tensor
from drygrad.static.syntax import nodes_within, scope_of

_KEEPS_CONTENT = frozenset({"requires_grad", "detach", "share_memory", "retain_grad", "names", "rename", "pin_memory"})
_WITHOUT_TWIN = frozenset(
    "zero fill copy normal uniform random bernoulli exponential geometric log_normal cauchy set resize apply map "
    "put".split()
)
"""In-place methods that have no method of the same name without the underscore."""
_FACTS = frozenset({"shape", "dtype", "device", "ndim", "requires_grad", "is_cuda", "grad"})
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**", ast.MatMult: "@", ast.FloorDiv: "//",
    ast.Mod: "%", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip


def counts(write: InplaceWrite) -> bool:
    """Say whether autograd hears of a write: one through ``.data`` it does not, and some methods write nothing."""
    if write.operation in _KEEPS_CONTENT or through_data(write.target) is not None:
        return False
    if "dropout" not in write.operation or write.call is None:
        return True
    drops = write.call.constant("p", 0.5)
    return drops not in (0, ...) and write.call.constant("training", True) is not False


def through_data(tensor: Tensor) -> Tensor | None:
    """Return the tensor whose memory is reached through ``.data``; None where it is reached otherwise."""
    while tensor.origin is not None and tensor.origin.operands:
        operand = tensor.origin.operands[0]
        if not isinstance(operand, Tensor):
            return None
        if tensor.origin.operation == "data":
            return operand
        if tensor.origin.operation not in VIEWS:
            return None
        tensor = operand
    return None


def spelled(write: InplaceWrite) -> str:
    """Return a write as its author would call it: ``clamp_``, ``+=``, ``relu(inplace=True)``."""
    if isinstance(write.node, ast.AugAssign):
        return f"{_OPERATORS[type(write.node.op)]}="
    if write.call is None:
        return "the assignment"
    name = write.call.target.rpartition(".")[2]
    return name if name.endswith("_") else f"{name}(inplace=True)"


def out_of_place(write: InplaceWrite, ctx: Context) -> Fix | None:
    """Return the fix that writes the result to new memory and lets the name stand for it."""
    name = ctx.text(write.expression)
    if name is None:
        return None
    edits = _edits(write, name, ctx)
    return ctx.fix(_title(write, name, ctx), *edits, safety=_safety(write, ctx)) if edits else None


def _title(write: InplaceWrite, name: str, ctx: Context) -> str:
    """Return what ``_edits`` does in a few words."""
    match write.node:
        case ast.AugAssign(op=op) if write.node.target is write.expression:
            return replaced(f"{_OPERATORS[type(op)]}=", _OPERATORS[type(op)])
        case ast.AugAssign(target=ast.Subscript(value=base)) | ast.Subscript(value=base):
            return copied(ctx.text(base) or name)
        case ast.Call(func=ast.Attribute(attr=method)) if method.endswith("_"):
            return copied(name) if write.operation in _WITHOUT_TWIN else replaced(method, method[:-1])
        case _:
            return "Remove `inplace=True`"


def replaced(written: str, twin: str) -> str:
    """Return the title of a fix that calls the out-of-place twin of an operation."""
    return f"Replace `{written}` with `{twin}`"


def copied(name: str) -> str:
    """Return the title of a fix that writes to a copy."""
    return f"Write to a copy of `{name}`"


def _edits(write: InplaceWrite, name: str, ctx: Context) -> list[Edit | None]:
    match write.node:
        case ast.AugAssign(op=op, value=value) if write.node.target is write.expression:
            right = f"({ctx.source_of(value)})" if _binds_weaker(value) else ctx.source_of(value)
            return [ctx.replace(write.node, f"{name} = {name} {_OPERATORS[type(op)]} {right}")]
        case ast.AugAssign(target=ast.Subscript(value=base)) | ast.Subscript(value=base):
            text = ctx.text(base)
            statement = ctx.statement(write.node)
            return [ctx.insert_statement(statement, f"{text} = {text}.clone()")] if text else []
        case ast.Call():
            return _call_edits(write, write.node, name, ctx)
        case _:
            return []


def rebinding(write: InplaceWrite, name: str, ctx: Context) -> list[Edit | None]:
    """Return the edits that bind a name to the result of a call that writes; none where it is no statement."""
    match write.node:
        case ast.Call(func=ast.Attribute(value=receiver, attr=method)) if receiver is write.expression:
            if not isinstance(ctx.parent(write.node), ast.Expr) or write.operation in _WITHOUT_TWIN:
                return []
            plain = f"{name}.{method.removesuffix('_')}"
            return [ctx.insert_before(write.node, f"{name} = "), ctx.replace(write.node.func, plain)]
        case _:
            return []


def _binds_weaker(node: ast.expr) -> bool:
    return isinstance(node, (ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Lambda, ast.UnaryOp, ast.NamedExpr))


def _call_edits(write: InplaceWrite, node: ast.Call, name: str, ctx: Context) -> list[Edit | None]:
    assert write.call is not None
    edits: list[Edit | None] = []
    if isinstance(ctx.parent(node), ast.Expr):
        edits.append(ctx.insert_before(node, f"{name} = "))
    if write.call.module is not None:
        made = write.call.module.node
        return [*edits, without_inplace(made, ctx)] if isinstance(made, ast.Call) else []
    if any(keyword.arg == "inplace" for keyword in node.keywords):
        return [*edits, without_inplace(node, ctx)]
    if isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_"):
        if write.operation in _WITHOUT_TWIN:
            return [ctx.insert_statement(ctx.statement(node), f"{name} = {name}.clone()")]
        return [*edits, ctx.replace(node.func, f"{ctx.source_of(node.func.value)}.{node.func.attr[:-1]}")]
    return []


def without_inplace(node: ast.Call, ctx: Context) -> Edit | None:
    """Return the edit that removes ``inplace=True`` from a call, passed by name or as the last argument."""
    if any(keyword.arg == "inplace" for keyword in node.keywords):
        return ctx.remove_keyword(node, "inplace")
    return _without_position(node, ctx)


def _without_position(node: ast.Call, ctx: Context) -> Edit | None:
    """``nn.LeakyReLU(0.2, True)``: ``inplace`` is the last parameter."""
    match node.args:
        case [ast.Constant(value=True) as only] if not node.keywords:
            return ctx.replace(only, "")
        case [*_, before, ast.Constant(value=True) as last] if not node.keywords:
            span = Span(ctx.source.end(before), ctx.source.end(last))
            return None if "#" in ctx.source.slice(span) else Edit(span, "")
        case _:
            return None


def _safety(write: InplaceWrite, ctx: Context) -> Safety:
    """Safe for a local tensor that no other name or container shares."""
    if not isinstance(write.expression, ast.Name) or (write.call is not None and write.call.module is not None):
        return "unsafe"
    home, storage, name = scope_of(write.node, ctx), write.target.storage, write.expression.id
    if isinstance(write.node, ast.Call) and not _rebinds(write.node, name, ctx):
        return "unsafe"
    made_here = isinstance(storage, ast.expr) and any(node is storage for node in nodes_within(home))
    return "safe" if made_here and not _is_shared(name, storage, home, ctx) else "unsafe"


def _rebinds(node: ast.Call, name: str, ctx: Context) -> bool:
    """Say whether nothing can read the name's old value once a call's result is a new tensor."""
    match ctx.parent(node):
        case ast.Expr() | ast.Return():
            return True
        case ast.Assign(targets=[ast.Name(id=target)]):
            return target == name
        case _:
            return False


def _is_shared(name: str, storage: object, home: ast.AST, ctx: Context) -> bool:
    for node in nodes_within(home):
        if not isinstance(node, ast.Name):
            continue
        value = ctx.tensor(node)
        if node.id != name and value is not None and value.storage is storage:
            return True
        if node.id == name and isinstance(node.ctx, ast.Load) and not _is_operand(node, ctx):
            return True
    return False


def _is_operand(node: ast.Name, ctx: Context) -> bool:
    """Say whether a name is read by an operation that makes something new of it."""
    parent = ctx.parent(node)
    match parent:
        case ast.Attribute():
            outer = ctx.parent(parent)
            called = isinstance(outer, ast.Call) and outer.func is parent and ctx.call(outer) is not None
            return called or parent.attr in _FACTS
        case ast.Call():
            return ctx.call(parent) is not None
        case ast.BinOp() | ast.UnaryOp() | ast.Compare() | ast.AugAssign() | ast.Return() | ast.Subscript():
            return True
        case _:
            return False
