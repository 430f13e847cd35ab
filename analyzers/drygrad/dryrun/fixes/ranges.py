"""Indices outside the range: classes counted from 1, tables that are too small, values to be limited."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.dryrun.fixes.layers import argument_of, maker
from drygrad.dryrun.fixes.site import Site
from drygrad.model import Edit, Fix
from drygrad.static.editing import as_operand, with_keyword, written_as

_MARKS = (255, -1)
"""What datasets write where there is no class: the void of segmentation masks, and a label that is not known."""
_CLASS_LOSSES = frozenset({"torch.nn.functional.cross_entropy", "torch.nn.functional.nll_loss"})


def fixes(site: Site) -> Iterator[Fix | None]:
    """Yield fixes of an index out of range; each changes what the program means, and says how."""
    value, high, low = (site.fact(name) for name in ("value", "high", "low"))
    if site.finding.code != "DG302" or not all(isinstance(v, (int, float)) for v in (value, high, low)):
        return
    operand = site.operand
    if site.fact("stored") is not None:
        yield _counted(site)
        return
    size = site.written(site.fact("size"))
    if size is not None:
        missing = int(_highest(site, None, value) - high) + 1
        text = as_operand(site.ctx, size)
        for more in dict.fromkeys((missing, 1)):
            title = f"Add {more} {'row' if more == 1 else 'rows'} (changes the model)"
            yield site.fix(title, site.ctx.replace(size, f"{text} + {more}"))
        return
    made = maker(site, "Embedding")
    if made is not None and value >= high:
        size = argument_of(made, "num_embeddings", 0)
        if size is not None:
            rows = int(_highest(site, operand, value)) + 1
            yield site.fix(f"Make room for {rows} rows (changes the model)", site.ctx.replace(size, str(rows)))
            yield site.fix("Make room for one more row (changes the model)", *_one_more(site, size))
    if value in _MARKS:
        yield _left_out(site, int(value))
    if operand is None:
        return
    text = as_operand(site.ctx, operand)
    if value == high and low == 0:
        edit = site.ctx.replace(operand, f"{text} - 1" if not _is_inner(site, operand) else f"({text} - 1)")
        yield site.fix("Subtract 1 to count from 0 (changes which class is meant)", edit)
    limit = f"clamp({int(low)}, {int(high) - 1})"
    yield site.fix(
        f"Limit it with `.{limit}` (changes the meaning of the other values)", site.with_call(operand, limit)
    )


def _left_out(site: Site, mark: int) -> Fix | None:
    """Return the loss that leaves out what is marked as no class; None where it leaves out another one already."""
    call = site.expression
    is_function = isinstance(call, ast.Call) and site.ctx.name(call.func) in _CLASS_LOSSES
    loss = call if is_function else maker(site, "CrossEntropyLoss", "NLLLoss")
    if not isinstance(loss, ast.Call) or any(k.arg == "ignore_index" for k in loss.keywords):
        return None
    title = f"Pass `ignore_index={mark}`"
    return site.fix(title, with_keyword(site.ctx, loss, "ignore_index", str(mark)))


def _counted(site: Site) -> Fix | None:
    """Return what counts from 0 where a dataset keeps numbers as they come."""
    node = site.expression
    if node is None:
        return None
    if site.fact("stored") == "from 1":
        return site.fix("Subtract 1 to count from 0", site.ctx.replace(node, f"{as_operand(site.ctx, node)} - 1"))
    unique = written_as(site.ctx, "torch.unique")
    text = f"{unique}({site.ctx.source_of(node)}, return_inverse=True)[1]"
    return site.fix("Renumber them from 0", site.ctx.replace(node, text)) if unique is not None else None


def _highest(site: Site, operand: ast.expr | None, value: float) -> float:
    """Return the greatest value that the run has seen under the operand's name."""
    name = site.ctx.text(operand) if operand is not None else site.fact("operand")
    seen = [shape.high for shape in site.result.shapes if shape.name == name and shape.high is not None]
    return max([value, *seen])


def _one_more(site: Site, size: ast.expr) -> list[Edit | None]:
    return [site.ctx.insert_after(size, " + 1")] if isinstance(size, (ast.Name, ast.Call, ast.Attribute)) else [None]


def _is_inner(site: Site, node: ast.expr) -> bool:
    return isinstance(site.ctx.parent(node), (ast.Attribute, ast.BinOp, ast.Subscript, ast.UnaryOp))
