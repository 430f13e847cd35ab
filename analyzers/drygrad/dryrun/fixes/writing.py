"""Writes in place that autograd or a leaf refuses: the same, to new memory, or without a graph."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.dryrun.fixes.site import Site
from drygrad.model import Edit, Fix, Position, Span
from drygrad.static.context import Context
from drygrad.static.editing import inserted, is_plain
from drygrad.static.facts.events import InplaceWrite
from drygrad.static.rules.autograd.inplace import copied, out_of_place, replaced
from drygrad.static.syntax import block_of

_SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**", ast.MatMult: "@",
}  # fmt: skip


def fixes(site: Site) -> Iterator[Fix | None]:
    """Yield fixes of a write in place, and of NumPy's refusal of a graph."""
    statement = site.statement
    if statement is None:
        return
    if site.finding.code == "DG101":
        yield from _out_of_place(site, statement)
        if site.fact("write") == "step":
            yield from _after_the_step(site, statement)
    elif site.finding.code == "DG102":
        yield _without_graph(site, statement)
    elif site.finding.code == "DG107":
        yield from _detached(site, statement)


def _out_of_place(site: Site, statement: ast.stmt) -> Iterator[Fix | None]:
    """Yield the rule's own edit where the text tells of the write: it knows whether it is safe; then the like."""
    for event in site.ctx.facts.recording.events.values():
        if isinstance(event, InplaceWrite) and site.ctx.statement(event.node) is statement:
            yield out_of_place(event, site.ctx)
    if isinstance(statement, ast.AugAssign) and type(statement.op) in _SIGNS:
        target, value = (site.ctx.source_of(node) for node in (statement.target, statement.value))
        right = (
            value if isinstance(statement.value, (ast.Name, ast.Call, ast.Constant, ast.Attribute)) else f"({value})"
        )
        if isinstance(statement.target, (ast.Name, ast.Attribute)):
            sign = _SIGNS[type(statement.op)]
            text = f"{target} = {target} {sign} {right}"
            yield site.fix(replaced(f"{sign}=", sign), site.ctx.replace(statement, text))
    written = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
    if isinstance(written, ast.Subscript) and (base := site.ctx.text(written.value)):
        yield site.fix(copied(base), inserted(site.ctx, statement, f"{base} = {base}.clone()"))
    for node in site.expressions(statement):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_in_place(node.func.attr):
            yield from _call_out_of_place(site, node, node.func)


def _is_in_place(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_") and name not in ("requires_grad_", "detach_")


def _call_out_of_place(site: Site, call: ast.Call, function: ast.Attribute) -> Iterator[Fix | None]:
    name = site.ctx.text(function.value)
    if name is None or site.ctx.name(function) is not None:
        return
    plain = f"{name}.{function.attr[:-1]}"
    bound = [site.ctx.insert_before(call, f"{name} = ")] if isinstance(site.ctx.parent(call), ast.Expr) else []
    yield site.fix(replaced(function.attr, function.attr[:-1]), *bound, site.ctx.replace(function, plain))
    statement = site.ctx.statement(call)
    yield site.fix(copied(name), inserted(site.ctx, statement, f"{name} = {name}.clone()"))


def _after_the_step(site: Site, step: ast.stmt) -> Iterator[Fix | None]:
    """Yield the fix that computes a loss after the step that changes the weights it depends on."""
    stepped_at = next((at.line for message, at in site.fault.related if message.endswith("the weights here")), None)
    saved_at = next((place.line for message, place in site.fault.related if " saves its " in message), None)
    saver = site.statement_at(saved_at) if saved_at is not None else None
    later = site.statement_at(stepped_at) if stepped_at is not None else None
    if later is not None:  # the fault stands at what is computed too early
        saver, step = step, later
    block = block_of(site.ctx, step)
    if saver not in block or saver.lineno > step.lineno:
        return
    between = block[block.index(saver) : block.index(step)]
    bound, late = set[str](), list[ast.stmt]()
    for statement in between:
        names = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        if statement is saver or names & bound:
            late.append(statement)
            bound |= {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    if not all(is_plain(site.ctx, statement) for statement in [*late, step]):
        return
    texts = [site.source.slice(_lines(site.ctx, statement)) for statement in late]
    edits = [site.ctx.delete_statement(statement) for statement in late]
    last = Position((step.end_lineno or step.lineno) + 1, 0)
    edits.append(Edit(Span(last, last), "".join(texts)))
    yield site.fix("Move it after the step that changes these weights (uses the new weights)", *edits)


def _lines(ctx: Context, statement: ast.stmt) -> Span:
    return Span(Position(statement.lineno, 0), Position((statement.end_lineno or statement.lineno) + 1, 0))


def _without_graph(site: Site, statement: ast.stmt) -> Fix | None:
    """Return the fix that puts a write under no_grad: right for initialisation and projections."""
    torch = site.ctx.imported_as("torch")
    if torch is None or not is_plain(site.ctx, statement) or statement.lineno != statement.end_lineno:
        return None
    indentation = site.source.indentation(statement.lineno)
    unit = "\t" if indentation.startswith("\t") else "    "
    start = Position(statement.lineno, 0)
    edit = Edit(Span(start, start), f"{indentation}with {torch}.no_grad():{site.source.newline}{unit}")
    return site.fix("Wrap the write in `torch.no_grad()`", edit)


def _detached(site: Site, statement: ast.stmt) -> Iterator[Fix | None]:
    for node in site.expressions(statement):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "numpy":
            edit = site.with_call(node.func.value, "detach()")
            yield site.fix("Insert `detach()`", edit, safety="safe")
    if site.operand is not None:
        yield site.fix("Insert `detach()`", site.with_call(site.operand, "detach()"), safety="safe")
