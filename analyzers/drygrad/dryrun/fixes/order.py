"""The order of a training loop: what to insert, to move or to take out."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.dryrun.fixes.site import Site
from drygrad.model import Fix
from drygrad.static.editing import inserted, is_plain, moved
from drygrad.static.syntax import block_of, called


def fixes(site: Site) -> Iterator[Fix | None]:
    """Yield fixes of the order in which a loop clears, computes and applies gradients."""
    statement = site.statement
    if statement is None:
        return
    here = (at.line for _, at in site.fault.related if at.path == site.path)
    related = [found for line in here if (found := site.statement_at(line)) is not None]
    code = site.finding.code
    if code == "DG703":
        name = _receiver(statement, "step", site)
        before = related[0] if related else statement
        if name:
            yield site.fix("Clear the gradients before `backward()`", inserted(site.ctx, before, f"{name}.zero_grad()"))
            yield site.fix(
                "Clear the gradients after the step", inserted(site.ctx, statement, f"{name}.zero_grad()", after=True)
            )
    elif code in ("DG704", "DG708", "DG701", "DG709") and related:
        yield site.fix("Move it after the step", *moved(site.ctx, statement, related[-1], after=True))
        yield site.fix("Move it before `backward()`", *moved(site.ctx, statement, related[0]))
        if code == "DG704":
            yield _cleared_after(site, statement, related[-1])
    elif code == "DG715":
        yield from _made_later(site, statement, related)
    elif code == "DG722":
        yield from _stepped_by_scaler(site, statement, related)
    elif "unscale_() has already been called" in site.finding.message:
        yield from _unscaled_at_the_step(site, statement)
    elif "before Module.__init__() call" in site.finding.message:
        yield from _initialised(site)


def _cleared_after(site: Site, clearing: ast.stmt, step: ast.stmt) -> Fix | None:
    """Return what clears where the step is taken, in whatever function that is, and nowhere else."""
    optimizer = _receiver(step, "step", site)
    if optimizer is None or not isinstance(clearing, ast.Expr) or not is_plain(site.ctx, clearing):
        return None
    block = block_of(site.ctx, step)
    cleared = any(_receiver(later, "zero_grad", site) for later in block[block.index(step) + 1 :])
    again = [] if cleared else [inserted(site.ctx, step, f"{optimizer}.zero_grad()", after=True)]
    return site.fix("Clear the gradients only after the step", site.ctx.delete_statement(clearing), *again)


def _made_later(site: Site, statement: ast.stmt, related: list[ast.stmt]) -> Iterator[Fix | None]:
    """Yield the optimizer made behind the statement that replaces the layer, or calls what does."""
    functions = {function.name for made in related if (function := site.ctx.function(made)) is not None}
    block = block_of(site.ctx, statement)
    for later in block[block.index(statement) + 1 :]:
        calls = (n for n in ast.walk(later) if isinstance(n, ast.Call))
        if later in related or any(called(call) in functions for call in calls):
            title = "Create the optimizer after the layer is replaced"
            yield site.fix(title, *moved(site.ctx, statement, later, after=True))
            return


def _receiver(statement: ast.stmt, method: str, site: Site) -> str | None:
    for node in site.expressions(statement):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method:
            return site.ctx.text(node.func.value)
    return None


def _stepped_by_scaler(site: Site, statement: ast.stmt, related: list[ast.stmt]) -> Iterator[Fix | None]:
    optimizer = _receiver(statement, "step", site)
    scaler = next((name for s in related if (name := _receiver(s, "scale", site))), None)
    if optimizer and scaler:
        text = f"{scaler}.step({optimizer})"
        edits = [site.ctx.replace(statement, text), inserted(site.ctx, statement, f"{scaler}.update()", after=True)]
        yield site.fix(f"Use `{text}`", *edits)


def _unscaled_at_the_step(site: Site, statement: ast.stmt) -> Iterator[Fix | None]:
    """``unscale_`` belongs once before each step: in accumulation, in the block of the step."""
    loops = site.ctx.loops(statement)
    steps = [
        node
        for node in ast.walk(loops[0] if loops else site.ctx.tree)
        if isinstance(node, ast.Expr) and _receiver(node, "step", site) == _receiver(statement, "unscale_", site)
    ]
    for step in steps:
        between = _with_followers(site, statement)
        texts = "\n".join(site.ctx.source_of(each) for each in between)
        indentation = site.source.indentation(step.lineno)
        text = texts.replace("\n", f"\n{indentation}")
        edits = [*(site.ctx.delete_statement(each) for each in between), inserted(site.ctx, step, text)]
        yield site.fix("Unscale only when a step follows", *edits)


def _with_followers(site: Site, statement: ast.stmt) -> list[ast.stmt]:
    """Return a statement with the clipping that follows it."""
    block = block_of(site.ctx, statement)
    found = [statement]
    for following in block[block.index(statement) + 1 :]:
        if "clip_grad" not in site.ctx.source_of(following):
            break
        found.append(following)
    return found


def _initialised(site: Site) -> Iterator[Fix | None]:
    """``super().__init__()`` belongs before the first layer, in the class and in the bases that the file has."""
    function = site.function
    owner = site.ctx.parent(function) if function is not None else None
    for cls in _with_bases(owner, site) if isinstance(owner, ast.ClassDef) else ():
        made = (f for f in cls.body if isinstance(f, ast.FunctionDef) and f.name == "__init__")
        for constructor in made:
            yield from _initialised_first(site, constructor)


def _with_bases(cls: ast.ClassDef, site: Site) -> Iterator[ast.ClassDef]:
    yield cls
    names = {site.ctx.text(base) for base in cls.bases}
    for other in site.ctx.tree.body:
        if isinstance(other, ast.ClassDef) and other.name in names and other is not cls:
            yield from _with_bases(other, site)


def _initialised_first(site: Site, function: ast.FunctionDef) -> Iterator[Fix | None]:
    calls = [s for s in function.body if "super(" in site.ctx.source_of(s) and "__init__" in site.ctx.source_of(s)]
    first = function.body[0]
    for call in calls[:1]:
        if call is not first:
            yield site.fix("Call `super().__init__()` first", *moved(site.ctx, call, first))
    if not calls:
        yield site.fix("Call `super().__init__()` first", inserted(site.ctx, first, "super().__init__()"))
