"""Numbers that float16 cannot hold: the outermost one that the tensor's own dtype holds."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

from drygrad.dryrun.fixes.site import Site
from drygrad.model import Fix
from drygrad.static.editing import as_operand, written_as
from drygrad.static.facts.values import Constant
from drygrad.static.rules.numerics.fill_overflows import LARGEST, POSITIONS


def fixes(site: Site) -> Iterator[Fix | None]:
    """Yield the statement of a finding with the limit of the dtype in the place of the number."""
    torch = site.ctx.imported_as("torch")
    if site.finding.code != "DG409" or torch is None or site.statement is None:
        return
    for given, dtype in _numbers(site, site.statement):
        bound = f"{torch}.finfo({dtype}).{'min' if _number(site, given) < 0 else 'max'}"
        title = f"Use `{bound}`"
        yield site.fix(title, site.ctx.replace(given, bound), safety="safe")


def _numbers(site: Site, statement: ast.stmt) -> Iterator[tuple[ast.expr, str]]:
    """Yield the numbers in a statement that are too large, each with the dtype that it is to have."""
    for node in site.expressions(statement):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            dtype = _dtype(site, node, node.func)
            yield from ((given, dtype) for given in _given(site, node, node.func) if dtype is not None)
    match statement:
        case ast.Assign(targets=[ast.Subscript(value=base)], value=value) if _number(site, value):
            yield value, f"{as_operand(site.ctx, base)}.dtype"
        case _:
            return


def _given(site: Site, call: ast.Call, function: ast.Attribute) -> list[ast.expr]:
    """Return the arguments of a call of an operation that fills, as far as they are too large."""
    places = POSITIONS.get(function.attr.rstrip("_"), ())
    as_method = 0 if site.ctx.name(function) is not None else 1
    by_name = [k.value for k in call.keywords if k.arg in {name for name, _ in places}]
    by_place = [call.args[p - as_method] for _, p in places if p - as_method < len(call.args)]
    return [given for given in (*by_name, *by_place) if _number(site, given)]


def _dtype(site: Site, call: ast.Call, function: ast.Attribute) -> str | None:
    """Return the text of the dtype of what is filled; an operand without a name is float16, as the run has seen."""
    named = next((k.value for k in call.keywords if k.arg == "dtype"), None)
    if named is not None:
        return site.ctx.source_of(named)
    is_method = site.ctx.name(function) is None
    filled = function.value if is_method else next(iter(call.args), None)
    if filled is None or function.attr == "full":
        return None
    name = site.ctx.text(filled)
    return f"{name}.dtype" if name is not None else written_as(site.ctx, "torch.float16")


def _number(site: Site, node: ast.expr) -> float:
    """Return a constant that float16 cannot hold, 0 for everything else."""
    value = site.ctx.value(node)
    number = value.value if isinstance(value, Constant) else None
    return float(number) if isinstance(number, (int, float)) and LARGEST < abs(number) < math.inf else 0.0
