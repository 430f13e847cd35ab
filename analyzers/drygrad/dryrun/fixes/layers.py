"""Layers made for other sizes than those that reach them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.dryrun.fixes.site import Site
from drygrad.model import Fix
from drygrad.static.editing import with_keyword
from drygrad.static.syntax import called

_SIZES = {
    "Linear": "in_features",
    "Conv1d": "in_channels",
    "Conv2d": "in_channels",
    "Conv3d": "in_channels",
    "BatchNorm1d": "num_features",
    "BatchNorm2d": "num_features",
    "BatchNorm3d": "num_features",
    "LSTM": "input_size",
    "GRU": "input_size",
    "RNN": "input_size",
    "LayerNorm": "normalized_shape",
}
"""The first argument of each layer: what it expects of its input."""


def fixes(site: Site) -> Iterator[Fix | None]:
    """Yield the layer that takes what reaches it, and the input laid out as the layer takes it."""
    found, wanted = site.fact("found"), site.fact("wanted")
    if not isinstance(found, int) or not isinstance(wanted, int):
        return
    yield from _joined(site)
    made = _made_here(site) or maker(site, *_SIZES)
    yield from _turned(site, wanted)
    if made is None:
        return
    name = called(made)
    size = argument_of(made, _SIZES[name], 0)
    if size is not None:
        yield site.fix(
            f"Create the layer with `{_SIZES[name]}={found}` (changes the model)",
            site.ctx.replace(size, str(found)),
        )


def _joined(site: Site) -> Iterator[Fix | None]:
    """Yield the concatenation along the last dimension, where the finding stands at one along another."""
    call = site.expression
    if site.is_origin and isinstance(call, ast.Call) and called(call) in ("cat", "concat", "concatenate"):
        given = argument_of(call, "dim", 1)
        edit = site.ctx.replace(given, "-1") if given is not None else with_keyword(site.ctx, call, "dim", "-1")
        yield site.fix("Concatenate along the last dimension", edit)


def _made_here(site: Site) -> ast.Call | None:
    """Return the call that makes the layer, where the finding stands at it."""
    call = site.expression
    return call if site.is_origin and isinstance(call, ast.Call) and called(call) in _SIZES else None


def maker(site: Site, *kinds: str) -> ast.Call | None:
    """Return the call that made the layer which was called at the fault, if it is of one of the kinds."""
    call = site.expression
    if not isinstance(call, ast.Call):
        return None
    made = site.binding(call.func)
    return made if isinstance(made, ast.Call) and called(made) in kinds else None


def argument_of(call: ast.Call, name: str, position: int) -> ast.expr | None:
    """Return an argument by its name or its place."""
    by_name = next((k.value for k in call.keywords if k.arg == name), None)
    return by_name or (call.args[position] if position < len(call.args) else None)


def _turned(site: Site, wanted: int) -> Iterator[Fix | None]:
    """Yield a transposition around the call, where another dimension has the size that the layer takes."""
    shape, call, operand = site.sizes("shape"), site.expression, site.operand
    if shape is None or len(shape) < 3 or not isinstance(call, ast.Call) or operand is None:
        return
    axis = -1 if called(call) == "Linear" or site.fact("attribute") in (None, "input_size", "embed_dim") else 1
    for dim, size in enumerate(shape):
        if size == wanted and dim not in (axis, len(shape) + axis, 0):
            turn = f"transpose({axis}, {dim})"
            edits = [site.with_call(operand, turn), site.ctx.insert_after(call, f".{turn}")]
            yield site.fix(f"Transpose for this layer: `.{turn}` before and after", *edits)
            yield site.fix(f"Transpose for this layer: `.{turn}`", edits[0])
