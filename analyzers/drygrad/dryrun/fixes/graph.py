"""Graphs that end too early: what is not to leave them, and what is to be recorded."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.dryrun.fixes.site import Site
from drygrad.dryrun.names import bound_names, read_names
from drygrad.model import Fix
from drygrad.static.context import FunctionNode
from drygrad.static.editing import as_operand, moved, with_keyword, written_as
from drygrad.static.rules.autograd.graph import undecorated
from drygrad.static.rules.autograd.non_leaf_in_optimizer import as_leaf
from drygrad.static.syntax import block_of

_CODES = ("DG105", "DG106", "DG110", "DG112", "DG116", "DG117", "DG118", "DG119")
_UNDONE = frozenset({"item", "detach"})
_CHECKPOINTS = frozenset({"torch.utils.checkpoint.checkpoint", "torch.utils.checkpoint.checkpoint_sequential"})
_COPIES = frozenset({"torch.tensor", "torch.as_tensor", "torch.FloatTensor", "torch.Tensor"})


def fixes(site: Site) -> Iterator[Fix | None]:
    """Yield fixes of what leaves its graph in the statement of a finding."""
    if site.finding.code not in _CODES or site.statement is None:
        return
    if isinstance(site.statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        yield from recorded(site, site.statement)
    elif isinstance(site.statement, (ast.Assign, ast.AnnAssign)):
        yield from _of_assignment(site, site.statement)
    for node in site.expressions(site.statement):
        if isinstance(node, ast.Call):
            yield from _of_call(site, node)
        elif isinstance(node, ast.Attribute) and node.attr == "data":
            yield site.fix("Remove `.data` to keep the graph", site.ctx.replace(node, site.ctx.source_of(node.value)))


def recorded(site: Site, function: FunctionNode) -> Iterator[Fix | None]:
    """Yield the function without the decorator that switches gradients off."""
    edit = undecorated(site.ctx, function)
    if edit is not None:
        yield site.fix("Remove the decorator", edit)


def _of_assignment(site: Site, statement: ast.Assign | ast.AnnAssign) -> Iterator[Fix | None]:
    """Yield what makes a leaf of a result that is to be one, and what computes losses before they lose their graph."""
    if site.finding.code == "DG110" and statement.value is not None:
        yield as_leaf(statement.value, site.ctx)
    elif site.finding.code == "DG118" and statement.value is not None:
        leaf = f"{as_operand(site.ctx, statement.value)}.detach().requires_grad_()"
        yield site.fix("Make the result a leaf again", site.ctx.replace(statement.value, leaf))
    elif site.finding.code == "DG112":
        yield _behind_its_readers(site, statement)


def _behind_its_readers(site: Site, statement: ast.stmt) -> Fix | None:
    """Return the fix that takes the graph from a name only behind what reads it, as straight-through estimators do."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]) if name in read_names(statement):
            pass
        case _:
            return None
    block = block_of(site.ctx, statement)
    last = None
    for later in block[block.index(statement) + 1 :]:
        if isinstance(later, ast.Return) or name in bound_names(later):
            break
        last = later if name in read_names(later) else last
    title = f"Move this below, so that later code reads `{name}` with its graph"
    return site.fix(title, *moved(site.ctx, statement, last, after=True)) if last is not None else None


def _of_call(site: Site, node: ast.Call) -> Iterator[Fix | None]:
    name = site.ctx.name(node.func)
    if name == "torch.autograd.grad":
        edit = with_keyword(site.ctx, node, "create_graph", "True")
        yield site.fix("Pass `create_graph=True`", edit)
    elif name in _CHECKPOINTS:
        edit = with_keyword(site.ctx, node, "use_reentrant", "False")
        yield site.fix("Pass `use_reentrant=False`", edit)
    elif name in _COPIES and len(node.args) == 1:
        yield from _stacked(site, node)
    elif isinstance(node.func, ast.Attribute) and node.func.attr in _UNDONE and not _is_meant(site, node):
        before = site.ctx.source_of(node.func.value)
        yield site.fix(f"Remove `{node.func.attr}()` to keep the graph", site.ctx.replace(node, before))


def _is_meant(site: Site, node: ast.Call) -> bool:
    """Say whether a call is the detach of a straight-through estimator, ``z + (q - z).detach()``, or no such call."""
    receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
    around = site.ctx.parent(node)
    estimates = isinstance(receiver, ast.BinOp) and isinstance(receiver.op, ast.Sub) and isinstance(around, ast.BinOp)
    return bool(node.args) or estimates


def _stacked(site: Site, node: ast.Call) -> Iterator[Fix | None]:
    """Yield the stack of tensors, and of nested lists of them; numbers among them become tensors like the others."""
    stack = written_as(site.ctx, "torch.stack")
    if stack is None:
        return
    given = node.args[0]
    text = site.ctx.source_of(given)
    if isinstance(given, ast.GeneratorExp):
        text = f"[{text.removeprefix('(').removesuffix(')')}]"
    yield site.fix("Use `torch.stack`", site.ctx.replace(node, f"{stack}({text})"))
    elements = [n for n in ast.walk(given) if isinstance(n, ast.Name)]
    like = written_as(site.ctx, "torch.full_like")
    if isinstance(given, (ast.List, ast.Tuple)) and elements and like is not None:
        text = _stack_of(given, stack, f"{like}({elements[0].id}, ", site)
        yield site.fix("Use `torch.stack`, converting the numbers", site.ctx.replace(node, text))


def _stack_of(node: ast.expr, stack: str, like: str, site: Site) -> str:
    """Return the text of a stack for each list; ``like`` begins the call that makes a tensor of a number."""
    if isinstance(node, (ast.List, ast.Tuple)):
        return f"{stack}([{', '.join(_stack_of(element, stack, like, site) for element in node.elts)}])"
    is_number = not any(isinstance(n, (ast.Name, ast.Attribute)) for n in ast.walk(node))
    return f"{like}{site.ctx.source_of(node)})" if is_number else site.ctx.source_of(node)
