"""What is carried from one turn of a loop to the next with its graph: where to detach it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.dryrun.fixes.site import Site
from drygrad.model import Fix
from drygrad.static.editing import inserted, with_keyword

_CODES = ("DG108", "DG113", "DG501", "DG502", "DG508")
_MOST = 6


def fixes(site: Site) -> Iterator[Fix | None]:
    """Yield detaches of what outlives a turn, and, for a graph that is used twice, keeping it."""
    if site.finding.code not in _CODES:
        return
    yield from _kept_values(site)
    given = site.expression
    if site.finding.code == "DG113" and isinstance(given, ast.Name):
        yield site.fix(f"Pass `{given.id}.detach()`", site.with_call(given, "detach()"))
    for _, (statement, name) in zip(range(_MOST), _carried(site), strict=False):
        for text in _detaching(site, name):
            title = f"Detach `{name}` before it is carried over (truncates backpropagation)"
            yield site.fix(title, inserted(site.ctx, statement, f"{name} = {text}", after=True))
    if site.finding.code == "DG113":
        yield from _kept(site)


def _kept_values(site: Site) -> Iterator[Fix | None]:
    """Yield the detach of what a list or a total keeps."""
    statement = site.statement
    if isinstance(statement, ast.AugAssign):
        yield site.fix("Accumulate `.detach()`, not the graph", site.with_call(statement.value, "detach()"))
    calls = (
        [n for n in site.expressions(statement) if isinstance(n, ast.Call)] if isinstance(statement, ast.Expr) else []
    )
    appends = [n for n in calls if isinstance(n.func, ast.Attribute) and n.func.attr == "append"]
    for node in appends:
        edit = site.with_call(node.args[0], "detach()") if node.args else None
        yield site.fix("Store `.detach()`, not the graph", edit)
    if calls and not appends:
        yield from _handed_over(site, calls[0])


def _handed_over(site: Site, call: ast.Call) -> Iterator[Fix | None]:
    """Yield the detach of what a call hands to a function that keeps it, of tensors that the run has seen."""
    seen = {shape.name for shape in site.result.shapes}
    for given in (*call.args, *(keyword.value for keyword in call.keywords)):
        if site.ctx.text(given) in seen:
            title = f"Pass `{site.ctx.text(given)}.detach()`"
            yield site.fix(title, site.with_call(given, "detach()"))


def _detaching(site: Site, name: str) -> Iterator[str]:
    """Yield how a value is detached: a tensor, or a tuple of them, as the run has seen it."""
    seen = {shape.name for shape in site.result.shapes}
    is_tuple = f"{name}[0]" in seen
    if is_tuple or name not in seen:
        part = "part" if name != "part" else "each"
        yield f"tuple({part}.detach() for {part} in {name})"
    if not is_tuple:
        yield f"{name}.detach()"


def _carried(site: Site) -> Iterator[tuple[ast.stmt, str]]:
    """Yield the statements that bind what the next turn reads: attributes of self, names read before they are bound."""
    seen: set[tuple[ast.stmt, str]] = set()
    lines = [at.line for _, at in site.fault.related]
    starts = [s for s in (site.statement, *map(site.statement_at, lines)) if s is not None]
    for start in starts:
        for pair in (*_of_loop(site, start), *_of_class(site, start)):
            if pair not in seen:
                seen.add(pair)
                yield pair


def _of_loop(site: Site, start: ast.stmt) -> Iterator[tuple[ast.stmt, str]]:
    for loop in site.ctx.loops(start):
        for statement, name in _bindings(loop.body, site):
            if _read_before(loop, statement, name):
                yield statement, name


def _of_class(site: Site, start: ast.stmt) -> Iterator[tuple[ast.stmt, str]]:
    function = site.ctx.function(start)
    owner = site.ctx.parent(function) if function is not None else None
    functions = (f for f in getattr(owner, "body", ()) if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef)))
    for method in functions if isinstance(owner, ast.ClassDef) else ():
        if method.name != "__init__":
            yield from (pair for pair in _bindings(method.body, site) if pair[1].startswith("self."))


def _bindings(body: list[ast.stmt], site: Site) -> Iterator[tuple[ast.stmt, str]]:
    for statement in (
        node for outer in body for node in ast.walk(outer) if isinstance(node, (ast.Assign, ast.AugAssign))
    ):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
            for part in parts:
                name = site.ctx.text(part)
                if name is not None and not isinstance(statement.value, ast.Constant):
                    yield statement, name


def _read_before(loop: ast.AST, statement: ast.stmt, name: str) -> bool:
    """Say whether a loop reads a name at or before the line that binds it: then the value is one of the turn before."""
    reads = (
        node
        for node in ast.walk(loop)
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load) and ast.unparse(node) == name
    )
    return any(node.lineno <= (statement.end_lineno or statement.lineno) for node in reads)


def _kept(site: Site) -> Iterator[Fix | None]:
    """Yield keeping the graph at the first of two passes through it."""
    for message, at in site.fault.related:
        statement = site.statement_at(at.line)
        if "freed" not in message or statement is None:
            continue
        for node in site.expressions(statement):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward":
                edit = with_keyword(site.ctx, node, "retain_graph", "True")
                yield site.fix("Pass `retain_graph=True` (uses more memory)", edit)
