"""Shapes that do not meet: which dimension to add, to drop or to turn, so that they do."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import permutations

from drygrad.dryrun.fixes.site import Site
from drygrad.model import Edit, Fix
from drygrad.static.editing import as_operand, written_as

_TO_CONTIGUOUS = "view size is not compatible"
_RANK = "must have the same number of dimensions"


def fixes(site: Site) -> Iterator[Fix | None]:
    """Yield what makes the two operands meet."""
    if _TO_CONTIGUOUS in (site.fault.detail or site.finding.message):
        yield from _reshaped(site)
    elif _RANK in (site.fault.detail or site.finding.message):
        yield from _gathered(site)
    else:
        yield from _met(site)
        yield from _resized(site)


def _reshaped(site: Site) -> Iterator[Fix | None]:
    for node in site.expressions(site.statement) if site.statement is not None else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "view":
            end = site.ctx.source.end(node.func)
            start = end._replace(column=end.column - len("view"))
            edit = Edit(site.ctx.source.span(node.func)._replace(start=start, end=end), "reshape")
            yield site.fix("Use `reshape`, which copies if needed", edit, safety="safe")


def _gathered(site: Site) -> Iterator[Fix | None]:
    """``scores.gather(1, index)`` takes an index with as many dimensions as the scores."""
    for call in _calls_in(site):
        dim = call.args[0].value if isinstance(call.args[0], ast.Constant) else None
        if (
            isinstance(call.func, ast.Attribute)
            and call.func.attr == "gather"
            and dim is not None
            and len(call.args) == 2
        ):
            added = site.with_call(call.args[1], f"unsqueeze({dim})")
            after = site.ctx.insert_after(call, f".squeeze({dim})")
            yield site.fix(f"Add a dimension to the index and remove it again: `unsqueeze({dim})`", added, after)
            yield site.fix(f"Add a dimension to the index: `unsqueeze({dim})`", added)


def _met(site: Site) -> Iterator[Fix | None]:
    """Yield changes of one operand's shape that fit it to the other."""
    mine, other = (site.sizes(name) for name in ("shape", "other_shape"))
    first, second = site.written(site.fact("operand")), site.written(site.fact("other"))
    if mine is None or other is None:
        return
    strict = site.finding.code in ("DG301", "DG303")
    for node, shape, goal in ((first, mine, other), (second, other, mine)):
        if node is not None:
            for call in _calls(shape, goal, strict=strict):
                text = " ".join(site.ctx.source_of(node).split())
                yield site.fix(f"Use `{text[:40]}.{call}`", site.with_call(node, call))


def _calls(shape: Sequence[int], goal: Sequence[int], *, strict: bool) -> Iterator[str]:
    """Yield methods after which a shape is the goal's, or (unless strict) broadcasts to it."""
    for dim, size in enumerate(shape):
        if size == 1 and _fits([*shape[:dim], *shape[dim + 1 :]], goal, strict=strict):
            yield f"squeeze({dim - len(shape) if dim == len(shape) - 1 else dim})"
    for dim in range(len(shape) + 1):
        if _fits([*shape[:dim], 1, *shape[dim:]], goal, strict=strict):
            yield f"unsqueeze({-1 if dim == len(shape) else dim})"
    if not strict and len(shape) - len(goal) == -2:
        for dim in range(len(shape) + 1):
            if _fits([*shape[:dim], 1, 1, *shape[dim:]], goal, strict=False):
                yield f"unsqueeze({dim}).unsqueeze({dim})"
    if 1 < len(shape) == len(goal) <= 4 and list(shape) != list(goal):
        for order in permutations(range(len(shape))):
            if [shape[i] for i in order] == list(goal):
                yield f"permute({', '.join(map(str, order))})" if len(shape) > 2 else "t()"
    if strict and _count(shape) == _count(goal):
        yield f"reshape({', '.join(map(str, [-1, *goal[1:]]))})"


def _fits(shape: Sequence[int], goal: Sequence[int], *, strict: bool) -> bool:
    if strict:
        return list(shape) == list(goal)
    if len(shape) != len(goal):
        return False
    return all(1 in (a, b) or a == b for a, b in zip(shape, goal, strict=True))


def _count(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _resized(site: Site) -> Iterator[Fix | None]:
    """Yield the interpolation of an image that is joined with one of another size."""
    mine, wanted = site.sizes("shape"), site.sizes("wanted")
    call = next((n for n in _calls_in(site) if isinstance(n.args[0], (ast.List, ast.Tuple))), None)
    if mine is None or wanted is None or call is None or not 3 <= len(mine) == len(wanted) or site.operand is None:
        return
    parts = call.args[0]
    assert isinstance(parts, (ast.List, ast.Tuple))
    other = next((part for part in parts.elts if ast.unparse(part) != ast.unparse(site.operand)), None)
    interpolate = written_as(site.ctx, "torch.nn.functional.interpolate")
    if other is None or interpolate is None:
        return
    size = f"{as_operand(site.ctx, other)}.shape[2:]"
    text = f"{interpolate}({site.ctx.source_of(site.operand)}, size={size})"
    yield site.fix(f"Resize it with `interpolate(size={size})`", site.ctx.replace(site.operand, text))


def _calls_in(site: Site) -> Iterator[ast.Call]:
    if site.statement is not None:
        yield from (n for n in site.expressions(site.statement) if isinstance(n, ast.Call) and n.args)
