"""What an expression of torchvision's (or albumentations') transforms does: by chance, or always the same."""

from __future__ import annotations

import ast
import re

from drygrad.static.context import Context
from drygrad.static.syntax import assigned_in
from drygrad.static.tree import walk

_PACKAGE = re.compile(r"^torchvision\.transforms(\.v2)?\.(transforms\.)?")
_RANDOM = re.compile(r"^(Random\w+|ColorJitter|AutoAugment|TrivialAugment\w*|AugMix|RandAugment|MixUp|CutMix)$")
_COMPOSES = frozenset({"Compose", "Sequential"})


def transform_name(node: ast.expr, ctx: Context) -> str | None:
    """Return the plain name of the transform that a call makes; None for anything else."""
    name = ctx.name(node.func) if isinstance(node, ast.Call) else None
    found = _PACKAGE.match(name or "")
    return name[found.end() :] if name is not None and found is not None else None


def steps_of(node: ast.expr, ctx: Context) -> list[ast.expr]:
    """Return the steps of a ``Compose``; for another transform, itself alone."""
    written = resolved(node, ctx)
    if written is None or transform_name(written, ctx) not in _COMPOSES or not isinstance(written, ast.Call):
        return [written] if written is not None else []
    listed = resolved(written.args[0], ctx) if written.args else None
    return list(listed.elts) if isinstance(listed, (ast.List, ast.Tuple)) else []


def random_step(node: ast.expr, ctx: Context) -> ast.expr | None:
    """Return the first step of a transform that draws random numbers; None where none is known to."""
    for step in steps_of(node, ctx):
        if _RANDOM.match(transform_name(step, ctx) or ""):
            return step
    return None


def resolved(node: ast.expr, ctx: Context) -> ast.expr | None:
    """Return an expression, or the only value that the name or attribute that it is has in this file."""
    match node:
        case ast.Name(id=name):
            scope = ctx.function(node) or ctx.tree
            return _only(name, scope) or _only(name, ctx.tree)
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            owner = next((a for a in ctx.ancestors(node) if isinstance(a, ast.ClassDef)), None)
            return _only_attribute(name, owner) if owner is not None else None
        case _:
            return node


def _only(name: str, scope: ast.AST) -> ast.expr | None:
    stores = [statement for text, statement in assigned_in(scope) if text == name]
    match stores:
        case [ast.Assign(targets=[ast.Name()], value=value)]:
            return value
        case _:
            return None


def _only_attribute(name: str, owner: ast.ClassDef) -> ast.expr | None:
    stores: list[ast.expr | None] = []
    for node in walk(owner):
        match node:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=attribute)], value=value):
                if attribute == name:
                    stores.append(value)
            case _:
                pass
    return stores[0] if len(stores) == 1 else None
