"""NaN and infinity where they are born: what to add, or to keep away from, at the operation itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.dryrun.fixes.site import Site
from drygrad.model import Fix, Safety
from drygrad.static.editing import as_operand, with_keyword, written_as

_LOGS = frozenset({"log", "log2", "log10"})
_ROOTS = frozenset({"sqrt", "rsqrt", "norm"})
_ARCS = frozenset({"acos", "asin", "arccos", "arcsin", "atanh", "erfinv"})
_SOFTMAX = frozenset({"softmax", "log_softmax"})
_SOFTMAX_OPS = frozenset({"_softmax", "_log_softmax", "_safe_softmax"})
_INFINITY = re.compile(r"""[+-]?\s*(float\(["'][+-]?inf(inity)?["']\)|(math|torch|np|numpy)\.inf)""")


def fixes(site: Site) -> Iterator[Fix | None]:
    """Yield fixes of the operations at the birth; each changes values near the edge, and is unsafe for that."""
    statement = site.statement
    if statement is None or site.finding.code == "DG409":
        return
    if site.fact("infinity_meets") is not None:
        yield from _written(site, statement)
    root = site.expression
    nodes = [*ast.walk(root)] if root is not None else []
    nodes += [node for node in site.expressions(statement) if node not in nodes]
    for node in nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            yield from _divided(site, node.right)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            yield _limited(site, node.left, "the base above 0", "clamp(min=1e-12)")
        elif isinstance(node, ast.Call):
            yield from _called(site, node)


def _divided(site: Site, denominator: ast.expr) -> Iterator[Fix | None]:
    if not isinstance(denominator, ast.Constant):
        yield _limited(site, denominator, "the denominator above 0", "clamp(min=1e-8)")
        text, where = site.ctx.source_of(denominator), written_as(site.ctx, "torch.where")
        if where is not None:
            held = f"{where}({as_operand(site.ctx, denominator)} == 0, 1e-8, {text})"
            yield site.fix("Replace 0 with a small number", site.ctx.replace(denominator, held))
        yield site.fix("Add a small epsilon to the denominator", site.ctx.replace(denominator, f"({text} + 1e-8)"))


def _called(site: Site, call: ast.Call) -> Iterator[Fix | None]:
    name, given = _operation(site, call)
    if given is None:
        return
    if name in _LOGS:
        yield _limited(site, given, "the logarithm's input above 0", "clamp(min=1e-8)")
    elif name == "norm":
        yield site.fix("Add a small epsilon before the norm", site.ctx.insert_after(given, " + 1e-8"))
    elif name in _ROOTS:
        yield _limited(site, given, "the root's input above 0", "clamp(min=1e-12)")
    elif name in _ARCS:
        yield _limited(site, given, "it between -1 and 1", "clamp(-1 + 1e-6, 1 - 1e-6)")
    elif name == "exp":
        yield _limited(site, given, "the exponent below 80", "clamp(max=80)")
    elif name in ("std", "var"):
        yield site.fix(
            "Pass `unbiased=False`",
            with_keyword(site.ctx, call, "unbiased", "False"),
        )
    elif name in _SOFTMAX:
        yield from _masked(site)


def _operation(site: Site, call: ast.Call) -> tuple[str, ast.expr | None]:
    """Return the name of a torch operation, and the tensor that it is applied to, however it is spelled."""
    if not isinstance(call.func, ast.Attribute):
        return "", None
    is_function = site.ctx.name(call.func) is not None
    given = (call.args[0] if call.args else None) if is_function else call.func.value
    return call.func.attr, given


def _limited(site: Site, node: ast.expr, what: str, call: str) -> Fix | None:
    return site.fix(f"Keep {what}: `.{call}`", site.with_call(node, call))


def _masked(site: Site) -> Iterator[Fix | None]:
    """Yield the greatest negative number for -inf in the masks: a row that is masked throughout then has a softmax."""
    for node in ast.walk(site.function or site.ctx.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            value = node.args[1] if node.func.attr.startswith("masked_fill") and len(node.args) > 1 else None
            if value is not None and "inf" in site.ctx.source_of(value):
                yield _finite(site, value, node.func.value, "safe")


def _written(site: Site, statement: ast.stmt) -> Iterator[Fix | None]:
    """Yield a finite number for the infinity that a statement writes."""
    safety: Safety = "safe" if site.fact("infinity_meets") in _SOFTMAX_OPS else "unsafe"
    for node in site.expressions(statement):
        if _INFINITY.fullmatch(site.ctx.source_of(node)) and not isinstance(site.ctx.parent(node), ast.UnaryOp):
            yield _finite(site, node, _filled(site, node), safety)


def _filled(site: Site, infinity: ast.expr) -> ast.expr | None:
    """Return what an infinity is written into, where the text has it as a tensor already."""
    parent = site.ctx.parent(infinity)
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute):
        return parent.func.value if parent.func.attr.startswith("masked_fill") else None
    target = parent.targets[0] if isinstance(parent, ast.Assign) else None
    return target.value if isinstance(target, ast.Subscript) else None


def _finite(site: Site, infinity: ast.expr, scores: ast.expr | None, safety: Safety) -> Fix | None:
    if "-" in site.ctx.source_of(infinity):
        end, text = "min", "-1e9"
        title = "Mask with the smallest finite number (fully masked rows become uniform, not NaN)"
    else:
        end, text = "max", "1e9"
        title = "Write a finite number"
    if scores is not None and site.ctx.imported_as("torch") == "torch":
        text = f"torch.finfo({as_operand(site.ctx, scores)}.dtype).{end}"
    return site.fix(title, site.ctx.replace(infinity, text), safety=safety)
