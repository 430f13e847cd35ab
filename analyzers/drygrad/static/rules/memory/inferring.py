"""Functions that put a model into evaluation mode and return what it gives: they infer, once a call, in no loop."""

from __future__ import annotations

import ast
import re

from drygrad.static.context import Context, FunctionNode
from drygrad.static.facts.frame import dotted_text
from drygrad.static.loops import trains
from drygrad.static.syntax import called, calls_in, follows, own_nodes

_INFERS = re.compile(
    r"^_?(predict|infer|inference|evaluate|eval|validate|generate|sample|translate|transcribe|synthesi[sz]e|classify|"
    r"detect|segment|recogni[sz]e|caption|embed|encode)(_|$)"
)


def inferring_call(function: FunctionNode, ctx: Context) -> ast.Call | None:
    """Return the call of the model that a function has put into evaluation mode itself, for an inference by its name.

    None where gradients are off there, or where somebody else of the file decides that, or trains with the result.
    """
    if not _INFERS.match(function.name) or any(_is_of_training(site.node, ctx) for site in ctx.callers(function)):
        return None
    calls = [node for node in own_nodes(*function.body) if isinstance(node, ast.Call)]
    for switch in calls:
        model = dotted_text(switch.func.value) if isinstance(switch.func, ast.Attribute) else None
        if model is None or called(switch) != "eval" or switch.args or switch.keywords:
            continue
        for call in calls:
            if dotted_text(call.func) in (model, f"{model}.forward") and follows(call, switch):
                return call if ctx.grad_enabled(ctx.statement(call)) is True else None
    return None


def _is_of_training(call: ast.AST, ctx: Context) -> bool:
    """Say whether a call may be one of a step of training, or has gradients switched off."""
    around = ctx.function(call)
    if ctx.grad_enabled(ctx.statement(call)) is not True or around is None:
        return True
    return trains(around) or any(called(other) in ("no_grad", "inference_mode") for other in calls_in(around))
