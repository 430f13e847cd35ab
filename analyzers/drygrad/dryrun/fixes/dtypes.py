"""Tensors of the wrong dtype: which to convert, to what, and where."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice

from drygrad.dryrun.fixes.site import Site
from drygrad.model import Fix, Safety
from drygrad.static.editing import with_keyword, written_as

_METHODS = {
    "float32": "float()",
    "int64": "long()",
    "float64": "double()",
    "float16": "half()",
    "bfloat16": "bfloat16()",
}
_PLAIN = {"float32": "float", "int64": "int"}
_INDICES = ("ind", "tensors")
_MAKERS = frozenset({"torch.tensor", "torch.as_tensor"})


def fixes(site: Site) -> Iterator[Fix | None]:
    """Yield conversions of the operand where it is used, then where it comes from."""
    wanted = site.dtype("wanted")
    yield from _stored(site)
    if site.fact("made") and wanted is not None and isinstance(site.expression, ast.Call):
        yield from _made(site, site.expression, wanted)
    elif wanted is not None and site.operand is not None and wanted in _METHODS:
        safe = str(site.fact("role")).startswith(_INDICES) and wanted == "int64"
        for node in islice(site.trail(site.operand), 3):
            yield _converted(site, node, _METHODS[wanted], "safe" if safe else "unsafe")
            yield site.rebound(node, _METHODS[wanted], "safe" if safe else "unsafe")
        if site.is_origin:
            yield from _of_numbers(site, site.operand, wanted)
    elif "floating point type for target" in site.finding.message:
        yield from _target(site)


def _made(site: Site, node: ast.Call, wanted: str) -> Iterator[Fix | None]:
    """Yield what makes the operand of the wanted dtype in the line that has given it its own."""
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if isinstance(node.func, ast.Attribute) and f"{method}()" in _METHODS.values():
        receiver = site.ctx.source_of(node.func.value)
        yield site.fix(f"Remove `.{method}()`", site.ctx.replace(node, receiver))
        if wanted in _METHODS:
            yield site.fix(
                f"Convert it with `.{_METHODS[wanted]}`", site.ctx.replace(node, f"{receiver}.{_METHODS[wanted]}")
            )
    given = any(k.arg == "dtype" for k in node.keywords)
    dtype = written_as(site.ctx, f"torch.{wanted}")
    if dtype is not None and (given or site.ctx.name(node.func) in _MAKERS):
        yield site.fix(f"Pass `dtype={dtype}`", with_keyword(site.ctx, node, "dtype", dtype))
    if wanted in _METHODS:
        yield _converted(site, node, _METHODS[wanted], "unsafe")


def _of_numbers(site: Site, node: ast.expr, wanted: str) -> Iterator[Fix | None]:
    """Yield what converts a number of Python's or an array of NumPy's, of which a loader makes a tensor."""
    text = site.ctx.source_of(node)
    if wanted in _PLAIN:
        yield site.fix(f"Convert it to a Python {_PLAIN[wanted]}", site.ctx.replace(node, f"{_PLAIN[wanted]}({text})"))
    yield site.fix(f"Convert the array to {wanted}", site.with_call(node, f'astype("{wanted}")'))


def _converted(site: Site, node: ast.expr, call: str, safety: Safety) -> Fix | None:
    text = " ".join(site.ctx.source_of(node).split())
    return site.fix(f"Convert `{text[:40]}` with `.{call}`", site.with_call(node, call), safety=safety)


def _stored(site: Site) -> Iterator[Fix | None]:
    """Yield the conversion of what is stored into a tensor of another dtype."""
    statement = site.statement
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript):
        holder = site.ctx.text(statement.targets[0].value)
        if holder:
            yield _converted(site, statement.value, f"to({holder}.dtype)", "safe")


def _target(site: Site) -> Iterator[Fix | None]:
    call = site.expression
    if isinstance(call, ast.Call) and len(call.args) > 1:
        yield _converted(site, call.args[1], "float()", "unsafe")
