"""Exponentials that overflow before their logarithm is taken: the logarithm of the whole, without them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.dryrun.fixes.site import Site
from drygrad.model import Fix
from drygrad.parsing import parsed_expression
from drygrad.static.editing import ATOMS, written_as
from drygrad.static.rules.numerics.rewriting import stays
from drygrad.static.syntax import argument

_CODES = ("DG404", "DG405", "DG410", "DG414")
_NEGLIGIBLE = 1e-3
_DEEPEST = 8


def fixes(site: Site) -> Iterator[Fix | None]:
    """Yield the logarithms, then the quotients, of exponentials in the function of a finding, the nearest first."""
    if site.finding.code not in _CODES or site.statement is None:
        return
    scope, line = site.function or site.ctx.tree, site.statement.lineno
    nodes = [node for node in ast.walk(scope) if isinstance(node, (ast.Call, ast.BinOp)) and node.lineno >= line]
    logarithms = sorted((n for n in nodes if isinstance(n, ast.Call)), key=lambda node: node.lineno)
    for call in logarithms:
        given = _argument_of(site, call, "log")
        found = _Logarithm(site, call).of(given) if given is not None else None
        if found is not None:
            yield site.fix("Work with the logarithms directly", site.ctx.replace(call, _tight(found)))
    for node in nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and _has_sum(node.right):
            found, exp = _Logarithm(site, node).of(node), written_as(site.ctx, "torch.exp")
            if found is not None and exp is not None:
                yield site.fix("Divide before the exponential", site.ctx.replace(node, f"{exp}({found})"))


class _Logarithm:
    """The logarithm of an expression as a text without exponentials; ``until`` is where that is to stand."""

    def __init__(self, site: Site, until: ast.expr) -> None:
        self._site, self._until = site, until

    def of(self, node: ast.expr, depth: int = 0) -> str | None:
        """Return the logarithm of an expression; None where it has none that is finite by itself."""
        if depth > _DEEPEST:
            return None
        match node:
            case ast.BinOp(left=left, op=ast.Add(), right=ast.Constant(value=float(small))) if small < _NEGLIGIBLE:
                return self.of(left, depth + 1)  # it kept the logarithm finite
            case ast.BinOp(left=left, op=ast.Div() | ast.Mult() | ast.Add() as operator, right=right):
                return self._joined(operator, self.of(left, depth + 1), self.of(right, depth + 1))
            case ast.Name():
                return self._of_name(node, depth)
            case ast.Call():
                return self._of_call(node, depth)
            case _:
                return None

    def _joined(self, operator: ast.operator, left: str | None, right: str | None) -> str | None:
        together = written_as(self._site.ctx, "torch.logaddexp")
        if left is None or right is None or together is None:
            return None
        if isinstance(operator, ast.Add):
            return f"{together}({left}, {right})"
        return f"{_tight(left)} {'-' if isinstance(operator, ast.Div) else '+'} {_tight(right)}"

    def _of_name(self, node: ast.Name, depth: int) -> str | None:
        bound = self._site.binding(node)
        if bound is None or not stays(bound, bound, self._until, self._site.ctx):
            return None
        return self.of(bound, depth + 1)

    def _of_call(self, call: ast.Call, depth: int) -> str | None:
        exponent = _argument_of(self._site, call, "exp")
        if exponent is not None:
            return self._site.ctx.source_of(exponent)
        summed = _argument_of(self._site, call, "sum")
        is_method = summed is not None and isinstance(call.func, ast.Attribute) and call.func.value is summed
        dim = argument(call, "dim", 0 if is_method else 1)
        inner, total = self.of(summed, depth + 1) if summed is not None else None, self._logsumexp()
        if inner is None or dim is None or total is None:
            return None
        kept = argument(call, "keepdim", 1 if is_method else 2)
        keeping = f", keepdim={self._site.ctx.source_of(kept)}" if kept is not None else ""
        return f"{total}({inner}, dim={self._site.ctx.source_of(dim)}{keeping})"

    def _logsumexp(self) -> str | None:
        return written_as(self._site.ctx, "torch.logsumexp")


def _argument_of(site: Site, call: ast.Call, name: str) -> ast.expr | None:
    """Return what a torch operation of a name is applied to, as a function or as a method."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != name:
        return None
    full = site.ctx.name(call.func)
    if full is not None:
        return call.args[0] if full == f"torch.{name}" and call.args else None
    return call.func.value


def _has_sum(node: ast.expr) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == "sum" for n in ast.walk(node))


def _tight(text: str) -> str:
    """Return a text that may be an operand: in parentheses, unless it binds tightly by itself."""
    return text if isinstance(parsed_expression(text), (*ATOMS, ast.Constant)) else f"({text})"
