"""Questions about the graph behind a value, shared by the rules of autograd."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Edit, Position, Span
from drygrad.static.context import Context, FunctionNode
from drygrad.static.facts.contexts import NO_GRAD
from drygrad.static.facts.transfer import tensors_in
from drygrad.static.facts.values import Object, Reference, Tensor, Value
from drygrad.static.syntax import calls_in, scope_of

COPIES = frozenset({"tensor", "as_tensor", "new_tensor"})
"""Operations that copy numbers and leave the graph behind."""


def ancestors(value: Value, *, in_graph: bool = False) -> Iterator[Tensor]:
    """Yield a tensor and the tensors it was computed from, each once; ``in_graph``: as far as a gradient may go."""
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        for tensor in tensors_in([waiting.pop()]):
            if id(tensor) not in seen and not (in_graph and tensor.requires_grad is False):
                seen.add(id(tensor))
                yield tensor
                waiting.extend(tensor.origin.operands if tensor.origin else ())


def computed_from(value: Value, node: ast.AST) -> bool:
    """Say whether an operation at this place in the text is among those that made a value."""
    return any(tensor.origin is not None and tensor.origin.node is node for tensor in ancestors(value))


def mode_is_shown(ctx: Context, node: ast.AST) -> bool:
    """Say whether the file shows in which grad mode a node runs: at module level, or in a function it calls."""
    function = ctx.function(node)
    if function is None or ctx.callers(function):
        return True
    owner = ctx.parent(function)
    return function.name == "__init__" and bool(owner and ctx.facts.instances.get(owner))


def recorded(ctx: Context, node: ast.AST) -> bool | None:
    """Return the grad mode at any node: at its own call, else at its statement."""
    mode = ctx.grad_enabled(node)
    return ctx.grad_enabled(ctx.statement(node)) if mode is None else mode


def no_grad_block(ctx: Context, node: ast.AST) -> ast.With | None:
    """Return the innermost ``with torch.no_grad():`` around a node within its function."""
    block = ctx.enclosing(node, ast.With)
    while block is not None and not any(_switches_off(ctx, item.context_expr) for item in block.items):
        block = ctx.enclosing(block, ast.With)
    return block


def undecorated(ctx: Context, function: FunctionNode) -> Edit | None:
    """Return the edit that removes the decorator under which a function records no graph."""
    for decorator in function.decorator_list:
        named = decorator.func if isinstance(decorator, ast.Call) else decorator
        if ctx.name(named) in NO_GRAD and decorator.lineno < function.lineno:
            last = decorator.end_lineno or decorator.lineno
            return Edit(Span(Position(decorator.lineno, 0), Position(last + 1, 0)), "")
    return None


def switch_of(ctx: Context, node: ast.expr, depth: int = 3) -> ast.expr:
    """Return what switches gradients off around a node, in its function or a caller's; else the node itself."""
    block, function = no_grad_block(ctx, node), ctx.function(node)
    heads = [item.context_expr for item in block.items] if block is not None else []
    decorators = function.decorator_list if function is not None and block is None else []
    named = [d for d in decorators if ctx.name(d.func if isinstance(d, ast.Call) else d) in NO_GRAD]
    switches = [call for call in calls_in(scope_of(node, ctx)) if _is_switch(call, ctx) and call.lineno < node.lineno]
    found = next(
        (head for head in (*heads, *named, *switches[-1:]) if head not in heads or _switches_off(ctx, head)), None
    )
    if found is not None:
        return found
    sites = ctx.callers(function) if function is not None and depth else []
    called = [site.node for site in sites if site.grad is False]
    return switch_of(ctx, called[0], depth - 1) if called else node


def _is_switch(call: ast.Call, ctx: Context) -> bool:
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    off = len(given) == 1 and isinstance(given[0], ast.Constant) and given[0].value is False
    return off and ctx.name(call.func) in _SWITCHES


_SWITCHES = frozenset({"torch.set_grad_enabled", "torch.autograd.set_grad_enabled"})


def _switches_off(ctx: Context, expression: ast.expr) -> bool:
    match ctx.value(expression):
        case Object(type=name) | Reference(name=name):
            return name in NO_GRAD
        case _:
            return False
