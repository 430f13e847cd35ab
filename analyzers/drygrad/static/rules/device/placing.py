"""How what a module makes comes to be where its inputs and parameters are."""

from __future__ import annotations

import ast

from drygrad.model import Fix
from drygrad.static.context import Context
from drygrad.static.editing import with_keyword
from drygrad.static.rules.device.meetings import Meeting, input_names, tensor_parameters
from drygrad.static.tree import walk


def repaired(meeting: Meeting, culprit: ast.Call, method: ast.FunctionDef, ctx: Context) -> Fix | None:
    """Return the fix at the culprit of a meeting: the call that makes the tensor, or one of a function that does."""
    return _made(meeting, ctx) if culprit is meeting.factory.node else _moved(culprit, method, ctx)


def _moved(call: ast.Call, method: ast.FunctionDef, ctx: Context) -> Fix | None:
    """Move what a function returns to where an input of the method is, or the buffer that it replaces."""
    names = input_names(method, ctx)
    owner = names[0] if names else _buffer(call, ctx)
    if owner is None:
        return None
    moved = ctx.insert_after(call, f".to({owner}.device)")
    return ctx.fix(f"Move it to the device of {owner}", moved, safety="safe")


def _buffer(call: ast.Call, ctx: Context) -> str | None:
    """Return the buffer that a statement gives another value: it is where the module is."""
    cls = next((a for a in ctx.ancestors(call) if isinstance(a, ast.ClassDef)), None)
    match ctx.parent(call):
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)]) if cls is not None:
            registers = (n for n in walk(cls) if isinstance(n, ast.Call) and ctx.text(n.func) == "self.register_buffer")
            registered = {n.args[0].value for n in registers if n.args and isinstance(n.args[0], ast.Constant)}
            return f"self.{name}" if name in registered else None
        case _:
            return None


def _made(meeting: Meeting, ctx: Context) -> Fix | None:
    function = ctx.function(meeting.factory.node)
    if not isinstance(function, ast.FunctionDef):
        return None
    arguments = {argument.arg for argument in function.args.args}
    is_method = isinstance(ctx.parent(function), ast.ClassDef)
    inputs = input_names(function, ctx) if is_method else tensor_parameters(function, ctx)
    names = [name for name in inputs if name in arguments]
    if isinstance(meeting.other, ast.Name) and meeting.other.id in names:
        names.insert(0, meeting.other.id)
    here = ctx.function(meeting.place) is function
    if not names and (here or not is_method):
        return None
    owner = names[0] if names else "next(self.parameters())"
    edit = with_keyword(ctx, meeting.factory.node, "device", f"{owner}.device")
    title = f"Make it on the device of {names[0] if names else 'the module'}"
    return ctx.fix(title, edit, safety="safe" if names else "unsafe")
