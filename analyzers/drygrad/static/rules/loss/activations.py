"""What was applied to a loss's input before it got there, and how to apply something else."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Edit, Fix, Position, Span
from drygrad.static.context import Context
from drygrad.static.editing import ATOMS, binds_itself
from drygrad.static.facts.values import Object, Origin, TorchCall
from drygrad.static.rules.loss.readers import holds, is_shared, undone, with_own_name
from drygrad.static.tree import walk


def related(ctx: Context, given: ast.expr, origin: Origin, name: str) -> list[tuple[str, ast.expr]]:
    """Point at the operation where it does not stand in the loss's own argument."""
    place = layer_of(ctx, origin) or origin.node
    return [] if holds(ctx, given, place) else [(f"{name} is applied here", place)]


def layer_of(ctx: Context, origin: Origin) -> ast.Call | None:
    """Return the constructor call of the layer that applies an operation within an ``nn.Sequential``."""
    module = origin.call.module if origin.call is not None else None
    if module is None or not isinstance(module.node, ast.Call):
        return None
    parent = ctx.parent(module.node)
    if not isinstance(parent, ast.Call) or module.node not in parent.args:
        return None
    return module.node if ctx.name(parent.func) == "torch.nn.Sequential" else None


def logits_passed(ctx: Context, given: ast.expr, origin: Origin) -> Fix | None:
    """Return the fix that lets the loss have what the operation was applied to; its other readers keep its result."""
    fix = ctx.fix(f"Remove `{origin.operation}` and pass the logits", *without(ctx, given, origin))
    own = ctx.fix("Pass the logits under their own name", *with_own_name(ctx, given, origin))
    return fix or own or ctx.fix("Convert the input back to logits", undone(ctx, given, origin))


def logits_named(ctx: Context, given: ast.expr, origin: Origin) -> list[Edit | None]:
    """Return the edits that give a loss the logits within the function that it stands in; [None] where none can."""
    is_here = ctx.function(origin.node) is ctx.function(given)
    return ((without(ctx, given, origin) or with_own_name(ctx, given, origin)) if is_here else []) or [None]


def without(ctx: Context, given: ast.expr, origin: Origin) -> list[Edit | None]:
    """Return the edits that take an operation away before the loss; none where something else reads its result."""
    layer, call = layer_of(ctx, origin), origin.call
    if layer is not None:
        return [] if is_shared(ctx, given, origin.node) else [_without_layer(ctx, layer)]
    if call is None or not call.operands:
        return []
    operand = call.operands[0]
    if isinstance(operand, ast.Name) and _is_alias(ctx, given, origin.node) and _keeps_its_value(ctx, operand, given):
        only = serves_only(ctx, given, origin.node)
        statement = ctx.statement(origin.node)
        return [ctx.replace(given, operand.id), *([ctx.delete_statement(statement)] if only else [])]
    if serves_only(ctx, given, origin.node):
        return [_replaced(ctx, origin.node, operand)]
    return []


def _replaced(ctx: Context, node: ast.expr, operand: ast.expr) -> Edit | None:
    """Put an operand in the place of what is made of it; a name that would be bound to itself is not bound at all."""
    if binds_itself(ctx, node, operand):
        return ctx.delete_statement(ctx.statement(node))
    return ctx.replace(node, _as_text(ctx, node, operand))


def logarithm_passed(ctx: Context, given: ast.expr, origin: Origin) -> Fix | None:
    """Return the fix that lets a loss have the logarithm of a softmax; its other readers keep the probabilities."""
    fix = ctx.fix("Use `log_softmax` instead", _renamed(ctx, given, origin, "log_softmax", "LogSoftmax"))
    return fix or ctx.fix("Take the logarithm for this loss", undone(ctx, given, origin))


def _renamed(ctx: Context, given: ast.expr, origin: Origin, function: str, module: str) -> Edit | None:
    """Apply another operation of the same parameters instead; None where something else reads its result."""
    call = origin.call
    if call is None:
        return None
    if call.module is not None:
        return None if is_shared(ctx, given, origin.node) else rename(ctx, call.module.node, module)
    return rename(ctx, call.node, function) if serves_only(ctx, given, origin.node) else None


def loss_renamed(ctx: Context, call: TorchCall, function: str, module: str) -> Edit | None:
    """Compute another loss of the same arguments instead, where that changes this call only."""
    if call.module is None:
        return rename(ctx, call.node, function)
    made = call.module.node
    uses = [c for c in ctx.facts.recording.calls.values() if c.module and c.module.node is made]
    others = made is not None and _is_handed_on(ctx, made, {id(c.node.func) for c in uses})
    return rename(ctx, made, module) if len(uses) == 1 and not others else None


def _is_handed_on(ctx: Context, made: ast.expr, called: set[int]) -> bool:
    """Say whether something is read by its name otherwise than to call it, so that others may call it, too."""
    values = ctx.facts.recording.values.items()
    holders = (n for n, value in values if isinstance(value, Object) and value.node is made and n is not made)
    return any(id(n) not in called and not isinstance(ctx.parent(n), (ast.Assign, ast.AnnAssign)) for n in holders)


def rename(ctx: Context, node: ast.expr | None, name: str) -> Edit | None:
    """Call another function of the same package: replace what stands behind the last dot."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    end = ctx.source.end(node.func)
    return Edit(Span(Position(end.line, end.column - len(node.func.attr)), end), name)


def serves_only(ctx: Context, given: ast.expr, node: ast.expr) -> bool:
    """Say whether a result goes nowhere but into the loss's argument (or out of a function of its own)."""
    if holds(ctx, given, node):
        return True
    if is_shared(ctx, given, node):
        return False
    statement = ctx.parent(node)
    if isinstance(statement, ast.Return):
        return True
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return False
    uses = list(_later_loads(ctx, statement, statement.targets[0].id))
    return len(uses) == 1 and (holds(ctx, given, uses[0]) or isinstance(ctx.parent(uses[0]), ast.Return))


def is_assigned_for(ctx: Context, given: ast.expr, origin: Origin) -> bool:
    """Say whether an operation's result gets a name in the loss's own function, and goes nowhere but into the loss."""
    is_named = isinstance(ctx.parent(origin.node), ast.Assign) and ctx.function(origin.node) is ctx.function(given)
    return is_named and not holds(ctx, given, origin.node) and serves_only(ctx, given, origin.node)


def _later_loads(ctx: Context, statement: ast.stmt, name: str) -> Iterator[ast.Name]:
    end = statement.end_lineno or statement.lineno
    for node in walk(ctx.function(statement) or ctx.tree):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load) and node.lineno > end:
            yield node


def _is_alias(ctx: Context, given: ast.expr, node: ast.expr) -> bool:
    """Say whether the loss's argument is the plain name that a result was assigned to."""
    statement = ctx.parent(node)
    names = statement.targets if isinstance(statement, ast.Assign) else []
    return isinstance(given, ast.Name) and any(isinstance(n, ast.Name) and n.id == given.id for n in names)


def _keeps_its_value(ctx: Context, operand: ast.Name, given: ast.expr) -> bool:
    """Say whether a name still means the same at the loss: it is assigned once at most in the one scope of both."""
    scope = ctx.function(given)
    if ctx.function(operand) is not scope:
        return False
    stores = [n for n in walk(scope or ctx.tree) if isinstance(n, ast.Name) and n.id == operand.id]
    parameters = [] if scope is None else [a for a in walk(scope.args) if isinstance(a, ast.arg)]
    bound = sum(isinstance(n.ctx, ast.Store) for n in stores) + sum(a.arg == operand.id for a in parameters)
    return bound == 1


def _as_text(ctx: Context, node: ast.expr, operand: ast.expr) -> str:
    """Return an operand's text, in parentheses where the place of the whole needs them."""
    text, parent = ctx.source_of(operand), ctx.parent(node)
    if isinstance(parent, (ast.Call, ast.keyword)) and node is not getattr(parent, "func", None):
        return text
    loose = not isinstance(operand, (*ATOMS, ast.Constant)) and not isinstance(parent, (ast.Assign, ast.Return))
    return f"({text})" if loose or "\n" in text else text


def _without_layer(ctx: Context, layer: ast.Call) -> Edit | None:
    parent = ctx.parent(layer)
    if not isinstance(parent, ast.Call) or parent.args.index(layer) == 0:
        return None
    start, end = ctx.source.end(parent.args[parent.args.index(layer) - 1]), ctx.source.end(layer)
    between = [ctx.source.line_text(line) for line in range(start.line, end.line)]
    return None if any("#" in line for line in between) else Edit(Span(start, end), "")
