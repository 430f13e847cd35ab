"""Where tensors and models meet that are on different devices: one account for DG201 and DG205, which explain it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from drygrad.model import Edit, Finding, Fix, Rule
from drygrad.static.context import Context
from drygrad.static.conversions import converted, is_written
from drygrad.static.editing import with_keyword
from drygrad.static.expected_errors import is_expected
from drygrad.static.facts.events import DeviceMismatch
from drygrad.static.facts.iteration import contained_modules
from drygrad.static.facts.operations import CASTS, FACTORIES, LOSSES, MODULE_OPERATIONS, PARAMETERLESS
from drygrad.static.facts.transfer import operands_of, same_device
from drygrad.static.facts.values import UNKNOWN, Object, Quantity, Tensor, element_of
from drygrad.static.rules.device.batches import (
    BatchLoop,
    batches_move_unseen,
    if_left_there,
    loader_loop,
    move_at_head,
    moved_model,
    touched_names,
    unpacked_names,
)
from drygrad.static.rules.device.placement import device_expression, is_accelerator, is_plain_factory, spoken, unless
from drygrad.static.rules.loss.origins import RELAYOUTS
from drygrad.static.tree import remembered, walk


@dataclass(frozen=True)
class Placed:
    """A tensor or a model, and the device that it is on. ``told`` is False where a loop's habits tell it, no fact."""

    node: ast.expr
    device: str
    told: bool = True
    moved_at: ast.expr | None = None


@dataclass(frozen=True)
class Meeting:
    """``wrong`` is what has to move; ``beside`` what would raise next."""

    operation: str
    wrong: Placed
    other: Placed
    chosen: str
    certain: bool
    beside: tuple[Placed, ...] = ()


# -- places -----------------------------------------------------------------------------------------------------


def _known(node: ast.expr, ctx: Context) -> Iterator[Placed]:
    """Yield the tensors of known device in an argument, those in lists included, scalars of the CPU left out."""
    if isinstance(node, (ast.List, ast.Tuple)):
        for element in node.elts:
            yield from _known(element, ctx)
        return
    value = ctx.quantity(node)
    if not isinstance(value, (Tensor, Quantity)) or value.device is None:
        return
    if not (value.device == "cpu" and isinstance(value, Tensor) and value.shape == ()):
        yield Placed(node, value.device)


def _place(node: ast.expr, loop: BatchLoop, ctx: Context) -> Placed | None:
    """Return where an expression is within a loop over batches; what a loader gives is on the CPU until it is moved."""
    known = next(_known(node, ctx), None)
    if known is not None:
        return known
    match node:
        case ast.Name(id=name) if name in unpacked_names(loop):
            left = _is_left(node, loop) and not isinstance(ctx.value(node), Tensor)
            return Placed(node, "cpu", told=False) if left and not batches_move_unseen(ctx) else None
        case ast.Name(id=name):
            values = [s.value for s in loop.body if isinstance(s, ast.Assign) and _binds(s, name)]
            return _place(values[0], loop, ctx) if len(values) == 1 else None
        case ast.Call(func=ast.Attribute(value=receiver, attr=method)) if method in (RELAYOUTS - {"to"}) | CASTS.keys():
            place = _place(receiver, loop, ctx)
        case ast.Call(args=args) if not any(isinstance(n, ast.Attribute) and n.attr in _MOVES for n in walk(node.func)):
            given = (_moved_part(argument, loop, ctx) for argument in args)
            place = next((part for part in given if part is not None), None)
        case _:
            return None
    return place


def _is_left(node: ast.expr, loop: BatchLoop) -> bool:
    """Say whether a name is a part of a batch that the loop leaves where the loader has put it."""
    return isinstance(node, ast.Name) and node.id in set(unpacked_names(loop)) - touched_names(loop.body)


_MOVES = frozenset({"cpu", "to", "cuda"})


def _binds(statement: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in statement.targets)


def _moved_part(node: ast.expr, loop: BatchLoop, ctx: Context) -> Placed | None:
    """Return an argument that the loop has moved, as a part of its batch, to another device than the CPU."""
    value = ctx.quantity(node)
    origin = value.origin if isinstance(value, (Tensor, Quantity)) and value.device not in (None, "cpu") else None
    match origin.node if origin is not None else None:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="to" | "cuda")) if name in unpacked_names(loop):
            return next((replace(part, told=False) for part in _known(node, ctx)), None)
        case _:
            return None


def _model(node: ast.Call, ctx: Context) -> Placed | None:
    """Return the model that a call runs, if its inputs must be where it is."""
    value, text = ctx.value(node.func), ctx.text(node.func)
    if isinstance(value, Object):
        follows = value.device is not None and _has_parameters(value, ctx) and not _moves_its_input(value)
        return Placed(node.func, value.device) if follows and value.device is not None else None
    moved = moved_model(text, node, ctx) if value is UNKNOWN and text is not None else None
    return Placed(node.func, moved[1], told=False, moved_at=moved[0]) if moved is not None else None


def _has_parameters(model: Object, ctx: Context) -> bool:
    """Say whether a module has parameters that its inputs must meet; wrappers that move their inputs count as none."""
    if model.cls is not None:
        held = ctx.facts.attributes(model).values()
        return any(isinstance(v, Object) and v.is_module and _has_parameters(v, ctx) for v in held)
    parts = contained_modules(model)
    if parts is not None:
        inner = parts.items if parts.items is not None else (element_of(parts),)
        return any(isinstance(part, Object) and _has_parameters(part, ctx) for part in inner)
    package, _, name = model.type.rpartition(".")
    return package == "torch.nn" and name in MODULE_OPERATIONS and name not in PARAMETERLESS


def _moves_its_input(model: Object) -> bool:
    """Say whether a method of a model's class moves anything."""
    classes = list(model.cls.lineage()) if model.cls is not None else []
    return any(name for cls in classes for name in _moves_in(cls.node))


@remembered
def _moves_in(node: ast.AST) -> Iterator[str]:
    for inner in walk(node):
        if isinstance(inner, ast.Attribute) and inner.attr in (*_MOVES, "register_forward_pre_hook"):
            yield inner.attr


# -- meetings ---------------------------------------------------------------------------------------------------


def of_model(node: ast.Call, ctx: Context) -> Meeting | None:
    """Return the meeting of a model with an input that is elsewhere."""
    if not node.args:
        return None
    loop = loader_loop(node, ctx)
    value = ctx.value(node.func)
    if not isinstance(value, Object) and loop is None:
        return None
    first = 1 if isinstance(value, Object) and value.cls else None
    given = [place for argument in node.args[:first] for place in _known(argument, ctx)]
    if loop is not None and not given and isinstance(node.args[0], ast.Name):
        left = _place(node.args[0], loop, ctx)
        given = [left] if left is not None and left.device == "cpu" else []
    model = _model(node, ctx) if given else None
    wrong = next((g for g in given if model is not None and _is_apart(model, g)), None)
    if model is None or wrong is None or (wrong.told and module_method(node, ctx) is not None):
        return None
    if model.device == "cpu" and not (wrong.told and _is_made_beside(value, node, ctx)):
        return None
    chosen = wrong.device if model.device == "cpu" else model.device
    certain = wrong.told and model.told and is_accelerator(chosen)
    return Meeting("the call", wrong, model, chosen, certain)


def _is_apart(model: Placed, given: Placed) -> bool:
    named = "cpu" in (model.device, given.device) and "$" in model.device[0] + given.device[0]
    return not given.told or (model.told and (named or same_device(model.device, given.device) is False))


def _is_made_beside(model: object, node: ast.Call, ctx: Context) -> bool:
    """Say whether a model is made in the function that calls it: nobody else can have moved it."""
    made = model.node if isinstance(model, Object) else None
    return made is not None and ctx.function(made) is ctx.function(node)


def of_operation(event: DeviceMismatch, ctx: Context) -> Meeting | None:
    """Return the meeting of an operation's tensors whose devices are known."""
    if event.call is not None and event.call.module is not None and event.call.module.device is not None:
        return None  # a model's
    nodes = event.expressions or operands_of(ctx.parent(event.node))
    operands = [place for node in nodes for place in _known(node, ctx)]
    on_cpu = [operand for operand in operands if operand.device == "cpu"]
    apart = [operand for operand in operands[1:] if operand.device != operands[0].device]
    wrong = next(iter(apart if event.operation in LOSSES else apart and (on_cpu or apart)), None)
    if wrong is None or _belongs_to_module(wrong, ctx):
        return None
    other = next(o for o in operands if o.device != wrong.device)
    beside = tuple(o for o in on_cpu if o is not wrong and wrong.device == "cpu")
    chosen = next((o.device for o in operands if o.device[0] == "$" or o.device == "auto"), other.device)
    return Meeting(event.operation, wrong, other, chosen, event.certain and "auto" not in event.devices, beside)


def of_loss(node: ast.Call, ctx: Context) -> Meeting | None:
    """Return the meeting of a model's output with a target that has been left where the loader put it."""
    call, loop = ctx.call(node), loader_loop(node, ctx)
    given, target = (call.operand("input"), call.operand("target")) if call is not None else (None, None)
    if call is None or loop is None or given is None or target is None:
        return None
    wrong = _place(target, loop, ctx)
    other = _place(given, loop, ctx) if wrong is not None and wrong.device == "cpu" else None
    if wrong is None or other is None or other.device == "cpu" or (wrong.told and next(_known(given, ctx), None)):
        return None  # where both are known, a mismatch tells of it
    return Meeting(call.operation, wrong, replace(other, node=given), other.device, certain=False)


def module_method(node: ast.AST, ctx: Context) -> ast.FunctionDef | None:
    """Return the method of an ``nn.Module`` around a node; None elsewhere and in ``__init__``."""
    function = ctx.function(node)
    cls = ctx.parent(function) if function is not None else None
    if not isinstance(function, ast.FunctionDef) or not isinstance(cls, ast.ClassDef) or function.name == "__init__":
        return None
    return function if ctx.is_module_class(cls) else None


def _belongs_to_module(operand: Placed, ctx: Context) -> bool:
    """Say whether the fault is that a module's method makes or keeps a tensor apart from the module's device."""
    function, tensor, node = module_method(operand.node, ctx), ctx.tensor(operand.node), operand.node
    made = tensor.origin if tensor is not None and tensor.made_by(*FACTORIES) else None
    if function is None or (made is not None and ctx.function(made.node) is function):
        return function is not None
    while isinstance(node, ast.Subscript):
        node = node.value
    on_self = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    kept = ctx.tensor(node) if on_self else None
    return kept is not None and not kept.parameter and not kept.buffer


# -- words and repairs ------------------------------------------------------------------------------------------


def told(rule: Rule, meeting: Meeting | None, ctx: Context) -> Iterator[Finding]:
    """Yield the finding of a meeting, under the code of the rule that explains it."""
    if meeting is None or is_expected(meeting.wrong.node, ctx):
        return
    wrong, other = meeting.wrong, meeting.other
    there = f"`{ctx.source_of(other.node)}` is on {spoken(other.device)}"
    here = f"`{ctx.source_of(wrong.node)}` on {spoken(wrong.device)}{if_left_there(wrong.node, ctx)}"
    yield ctx.finding(
        rule,
        wrong.node,
        f"{there}, {here}; {meeting.operation} raises{unless(meeting.chosen)}",
        severity=None if meeting.certain else "warning",
        related=[("the model is moved here", other.moved_at)] if other.moved_at is not None else [],
        fixes=[_fix(meeting, ctx)],
    )


def _fix(meeting: Meeting, ctx: Context) -> Fix | None:
    """Move what is told, and what is beside it and would raise next."""
    wrong, other = meeting.wrong, meeting.other
    if meeting.operation == "the call" and other.device == "cpu":
        return _model_moved(wrong, other, ctx)
    of_model = meeting.operation == "the call"
    loop = loader_loop(wrong.node, ctx)
    device = device_expression(other.device, wrong.node, ctx)
    if device is None and of_model:
        device = f"next({ctx.source_of(other.node)}.parameters()).device"
    if loop is not None and device is not None and _is_left(wrong.node, loop):
        return ctx.fix("Move the loader's batch", move_at_head(loop, device, ctx), safety="safe")
    if is_written(ctx, wrong.node):
        return _moved_to_target(wrong.node, other.node, ctx)
    if not of_model and isinstance(other.node, ast.Name):
        device = f"{other.node.id}.device"
    if device is None:
        return None
    title = f"Move {'them' if meeting.beside else 'it'} to {spoken(other.device)}"
    edits = [_moved(place.node, device, ctx) for place in (wrong, *meeting.beside)]
    return ctx.fix(title, *edits, safety="safe")


def _model_moved(given: Placed, model: Placed, ctx: Context) -> Fix | None:
    value, device = ctx.value(model.node), device_expression(given.device, model.node, ctx)
    made = value.node if isinstance(value, Object) else None
    return ctx.fix("Move the model", ctx.insert_after(made, f".to({device})")) if made and device else None


def _moved_to_target(target: ast.expr, other: ast.expr, ctx: Context) -> Fix | None:
    """Move the other operand of a write in place: what is written stays where it is, as what it is."""
    if not isinstance(target, ast.Name) or isinstance(ctx.parent(target), ast.keyword):
        return None
    moved = converted(ctx, other, f"to({target.id}.device)")
    return ctx.fix(f"Move it to the device of `{target.id}`", moved, safety="safe")


def _moved(node: ast.expr, device: str, ctx: Context) -> Edit | None:
    if isinstance(node, ast.Call) and is_plain_factory(ctx.call(node)):
        return with_keyword(ctx, node, "device", device)
    return converted(ctx, node, f"to({device})")
