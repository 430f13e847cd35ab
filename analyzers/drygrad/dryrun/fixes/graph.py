"""Graphs that end too early: what is not to leave them, and what is to be recorded."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.dryrun.fixes.site import Site
from drygrad.model import Edit, Fix, Position, Span
from drygrad.static.editing import with_keyword, written_as

_CODES = ("DG105", "DG106", "DG112", "DG116")
_SWITCHES = frozenset({"torch.no_grad", "torch.inference_mode"})
_UNDONE = frozenset({"item", "detach"})
_COPIES = frozenset({"torch.tensor", "torch.as_tensor", "torch.FloatTensor", "torch.Tensor"})


def fixes(site: Site) -> Iterator[Fix | None]:
    """Yield fixes of what leaves its graph in the statement of a finding."""
    if site.finding.code not in _CODES or site.statement is None:
        return
    if isinstance(site.statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        yield from _recorded(site, site.statement)
    for node in site.expressions(site.statement):
        if isinstance(node, ast.Call):
            yield from _of_call(site, node)
        elif isinstance(node, ast.Attribute) and node.attr == "data":
            yield site.fix("Keep the graph: remove .data", site.ctx.replace(node, site.ctx.source_of(node.value)))


def _recorded(site: Site, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Fix | None]:
    """Yield the function without the decorator that switches gradients off."""
    for decorator in function.decorator_list:
        name = site.ctx.name(decorator.func if isinstance(decorator, ast.Call) else decorator)
        if name in _SWITCHES and decorator.lineno < function.lineno:
            span = Span(Position(decorator.lineno, 0), Position((decorator.end_lineno or decorator.lineno) + 1, 0))
            yield site.fix("Record gradients here: remove the decorator", Edit(span, ""))


def _of_call(site: Site, node: ast.Call) -> Iterator[Fix | None]:
    name = site.ctx.name(node.func)
    if name == "torch.autograd.grad":
        edit = with_keyword(site.ctx, node, "create_graph", "True")
        yield site.fix("Record the graph of the gradient", edit)
    elif name in _COPIES and len(node.args) == 1:
        yield from _stacked(site, node)
    elif isinstance(node.func, ast.Attribute) and node.func.attr in _UNDONE and not node.args:
        before = site.ctx.source_of(node.func.value)
        yield site.fix(f"Keep the graph: remove {node.func.attr}()", site.ctx.replace(node, before))


def _stacked(site: Site, node: ast.Call) -> Iterator[Fix | None]:
    """Yield the stack of tensors, and of nested lists of them."""
    stack = written_as(site.ctx, "torch.stack")
    if stack is None:
        return
    given = node.args[0]
    text = site.ctx.source_of(given)
    if isinstance(given, ast.GeneratorExp):
        text = f"[{text.removeprefix('(').removesuffix(')')}]"
    yield site.fix("Stack the tensors", site.ctx.replace(node, f"{stack}({text})"))
