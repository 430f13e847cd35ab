"""Which layers an optimizer of the file holds, by the calls that construct them."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from drygrad.static.context import Context
from drygrad.static.facts.values import Class, Object, ParameterList
from drygrad.static.parameters import has_parameters
from drygrad.static.roles import role_of_value
from drygrad.static.syntax import last_assignment
from drygrad.static.tree import walk

_DEPTH = 3


def held_by_optimizers(ctx: Context) -> frozenset[ast.expr]:
    """Return what constructs the layers and parameters that surely are in an optimizer."""
    models: list[Object] = []
    for call in ctx.nodes(ast.Call):
        value = ctx.value(call)
        if isinstance(value, Object) and value.node is call and role_of_value(value) == "optimizer":
            for given in (*call.args[:1], *(k.value for k in call.keywords if k.arg == "params")):
                models.extend(_models_in(ctx, given, _DEPTH))
    return parts_of(ctx, models)


def _models_in(ctx: Context, given: ast.expr, depth: int) -> Iterable[Object]:
    for node in walk(given):
        value = ctx.value(node) if isinstance(node, ast.expr) else None
        if isinstance(value, ParameterList) and isinstance(value.module, Object):
            yield value.module
        elif isinstance(node, ast.Name) and depth:
            before = last_assignment(ctx, node.id, ctx.statement(node))
            yield from _models_in(ctx, before, depth - 1) if before is not None else ()


def parts_of(ctx: Context, models: Iterable[Object]) -> frozenset[ast.expr]:
    """Return the calls that construct the layers and parameters of models, those of parts of parts included."""
    found: set[ast.expr] = set()
    waiting: list[ast.AST] = []
    seen: set[ast.AST] = set()
    for model in models:
        waiting += _texts_of(model)
    while waiting:
        text = waiting.pop()
        if text in seen:
            continue
        seen.add(text)
        for node in walk(text):
            value = ctx.value(node) if isinstance(node, ast.Call) else None
            if isinstance(value, Object):
                waiting += _texts_of(value)
            if isinstance(node, ast.Call) and value is not None and has_parameters(value, ctx):
                found.add(node)
    return frozenset(found)


def _texts_of(model: Object) -> list[ast.AST]:
    """Return where the layers of a model are constructed: in the call, and in its class."""
    classes: list[Class] = list(model.cls.lineage()) if model.cls is not None else []
    return [text for text in (model.node, *(cls.node for cls in classes)) if text is not None]
