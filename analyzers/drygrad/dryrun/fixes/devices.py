"""Tensors on different devices: which one to move, where, and to the device of what."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from drygrad.dryrun.fixes.site import Site
from drygrad.dryrun.result import Place
from drygrad.model import Fix, Safety
from drygrad.static.conversions import is_written
from drygrad.static.editing import as_buffer, moved, with_keyword
from drygrad.static.facts.operations import FACTORIES
from drygrad.static.syntax import block_of

_REFERENCES = 2
_FAILS = "it fails here"
_PLAIN = frozenset(("int", "float", "bool", "str"))
_MOVING = frozenset({"to", "cpu", "cuda", "type", "type_as", "numpy", "tolist", "item"})


def fixes(site: Site) -> Iterator[Fix | None]:
    """Yield fixes: made where it is needed, moved where it is used, moved where it comes from."""
    if site.finding.code == "DG207":
        yield from _copied_to_host(site)
        return
    if site.fact("generator"):
        yield from _generator(site)
        return
    if site.finding.code == "DG204":
        yield site.fix("Register it as a buffer", as_buffer(site.ctx, site.statement))
    if site.is_origin and site.statement is not None:
        yield _made_behind_the_move(site, site.statement)
    operand = site.operand
    if site.fact("is_parameter") or (operand is None and site.fact("role") == "weight"):
        yield from _module_moved(site)
    if operand is None:
        return
    if site.fact("role") == "lengths":
        title = f"Pass `{_short(site.ctx.source_of(operand))}` with `.cpu()`"
        yield site.fix(title, site.with_call(operand, "cpu()"), safety="safe")
        return
    yield from _moved_to_target(site, operand)
    for node in site.trail(operand):
        for reference, safe in islice(references(site, node), _REFERENCES):
            text = site.ctx.source_of(node)
            factory = _factory(node, site)
            if factory is not None:
                edit = with_keyword(site.ctx, factory, "device", reference)
                yield site.fix(f"Create it with `device={reference}`", edit, safety=_safety(safe))
            elif not isinstance(node, ast.Constant):
                yield site.fix(
                    f"Move `{_short(text)}` with `.to({reference})`",
                    site.with_call(node, f"to({reference})"),
                    safety=_safety(safe),
                )
                yield site.rebound(node, f"to({reference})", _safety(safe))
    yield from _where_it_fails(site)


def _moved_to_target(site: Site, target: ast.expr) -> Iterator[Fix | None]:
    """Yield the move of the other operand to the target of a write in place, which stays what it is."""
    other, name = site.written(site.fact("other")), site.ctx.text(target)
    if other is not None and name is not None and is_written(site.ctx, target):
        text = f"to({name}.device)"
        title = f"Move `{_short(site.ctx.source_of(other))}` with `.{text}`"
        yield site.fix(title, site.with_call(other, text), safety="safe")


def _made_behind_the_move(site: Site, statement: ast.stmt) -> Fix | None:
    """Return the fix that takes copies of a module, or its average, only when the module has been moved."""
    call = statement.value if isinstance(statement, ast.Assign) else None
    given = {n.id for n in ast.walk(call) if isinstance(n, ast.Name)} if isinstance(call, ast.Call) else set[str]()
    bound = {ast.unparse(target) for target in getattr(statement, "targets", ())}
    block = block_of(site.ctx, statement)
    for later in block[block.index(statement) + 1 :]:
        called = later.value if isinstance(later, (ast.Expr, ast.Assign)) else None
        match called:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="to" | "cuda")) if name in given:
                title = f"Create it after `{name}` has been moved"
                return site.fix(title, *moved(site.ctx, statement, later, after=True))
            case _:
                pass
        if any(ast.unparse(n) in bound for n in ast.walk(later) if isinstance(n, (ast.Name, ast.Attribute))):
            return None
    return None


def _where_it_fails(site: Site) -> Iterator[Fix | None]:
    """Yield the fixes in the function that was handed the operand: there the device of the others may be at hand."""
    failing = _failing(site)
    own = site.finding.code == "DG204"  # an attribute that is no buffer: one is wanted, not a move at each use
    inner = site.fact("inner") or (None if own else site.fact("operand"))
    if failing not in (None, site.fault.at) and isinstance(inner, str):
        facts = {**site.fault.facts, "operand": inner, "inner": None}
        yield from fixes(replace(site, fault=replace(site.fault, at=failing, facts=facts)))


def _safety(safe: bool) -> Safety:
    return "safe" if safe else "unsafe"


def _short(text: str) -> str:
    line = re.sub(r"(?<=[(\[{]) | (?=[)\]}])", "", " ".join(text.split()))
    return line if len(line) <= 40 else f"{line[:37]}..."


def _copied_to_host(site: Site) -> Iterator[Fix | None]:
    for node in site.expressions(site.statement) if site.statement is not None else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "numpy":
            yield site.fix("Copy it to host memory first", site.with_call(node.func.value, "cpu()"), safety="safe")
    if site.operand is not None:
        yield site.fix("Copy it to host memory first", site.with_call(site.operand, "cpu()"), safety="safe")


def references(site: Site, node: ast.expr) -> Iterator[tuple[str, bool]]:
    """Yield expressions for the wanted device that can be read at a node, and whether it is the other operand's.

    Moving to the device of the other operand changes nothing where both were on one device before.
    """
    here = site.statement is not None and site.ctx.function(node) is site.function
    other = site.fact("other")
    read = _beside(site) or site.written(other) if here else None
    held = _held(site, read) if read is not None else None
    if held is not None:
        yield f"{held}.device", True
    function = site.ctx.function(node)
    if (far := _met(site, function)) is not None:
        yield f"{far}.device", False
    names = [name for name in _parameters(function) if not _is_plain(function, name)]
    own = [name for name in names if name != site.ctx.text(node) and _reads_shape(function, name, site)]
    yield from ((f"{name}.device", False) for name in own[:1])
    yield from ((text, False) for text in _devices(site, node))
    if getattr(function, "name", "") != "__init__":  # a constructor is given sizes and settings rather than tensors
        yield from ((f"{name}.device", False) for name in names if name not in own and name not in ("self", "device"))
    if names[:1] == ["self"]:
        yield "next(self.parameters()).device", False


def _beside(site: Site) -> ast.expr | None:
    """Return what an operator applies to together with the operand: a worker tells no more than a name."""
    node = site.expression
    match node, site.operand:
        case ast.BinOp(left=left, right=right), ast.expr() as operand if operand in (left, right):
            return right if operand is left else left
        case _:
            return None


def _met(site: Site, function: ast.AST | None) -> str | None:
    """Return the attribute of self on the device that a tensor meets where it fails, readable where it is made."""
    failing = _failing(site)
    if not site.is_origin or failing is None or "self" not in _parameters(function):
        return None
    there = replace(site, fault=replace(site.fault, at=failing))
    sides = there.expression
    if site.ctx.function(sides or site.ctx.tree) is not function or not isinstance(sides, ast.BinOp):
        return None
    held = (_held(there, side) for side in (sides.left, sides.right))
    return next((text for text in held if text is not None and text.startswith("self.")), None)


def _failing(site: Site) -> Place | None:
    return next((at for message, at in site.fault.related if message == _FAILS), None)


def _is_plain(function: ast.AST | None, name: str) -> bool:
    """Say whether a parameter is a number or a text, by its default or annotation, which has no device."""
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    positional = [*function.args.posonlyargs, *function.args.args]
    pairs = [*zip(reversed(positional), reversed(function.args.defaults), strict=False)]
    pairs += [(p, d) for p, d in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True) if d]
    default = next((d for p, d in pairs if p.arg == name), None)
    asked = next((p.annotation for p in (*positional, *function.args.kwonlyargs) if p.arg == name), None)
    known = isinstance(default, ast.Constant) and default.value is not None
    return known or (isinstance(asked, ast.Name) and asked.id in _PLAIN)


def _held(site: Site, node: ast.expr) -> str | None:
    """Return the name of a tensor on the device of an expression: what its methods and functions were applied to."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        is_function = site.ctx.name(node.func) is not None
        given = (node.args[0] if node.args else None) if is_function else node.func.value
        if given is None or node.func.attr in _MOVING or _factory(node, site) is not None:
            return None
        node = given
    return site.ctx.source_of(node) if site.ctx.text(node) is not None else None


def _parameters(function: ast.AST | None) -> list[str]:
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return []
    return [a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]


def _reads_shape(function: ast.AST | None, name: str, site: Site) -> bool:
    """Say whether a function reads a parameter as a tensor: its shape, size, dtype or device."""
    attributes = (n for n in ast.walk(function) if isinstance(n, ast.Attribute)) if function is not None else ()
    return any(site.ctx.text(n.value) == name and n.attr in ("shape", "size", "dtype", "device") for n in attributes)


def _devices(site: Site, node: ast.expr) -> list[str]:
    """Return what the file calls its device, in ``.to(...)`` and ``device=...``, as far as a node can read it."""
    function = site.ctx.function(node)
    visible = {*_parameters(function), *_stored(site.ctx.tree.body), *_stored(getattr(function, "body", []), node)}
    calls = [call for call in ast.walk(site.ctx.tree) if isinstance(call, ast.Call)]
    home = _owner(site, node)
    moves = (c.args[0] for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr == "to" and c.args)
    given = (k.value for c in calls for k in c.keywords if k.arg == "device")
    named = ((value, site.ctx.text(value)) for value in (*moves, *given))
    readable = (
        text
        for value, text in named
        if text and text.partition(".")[0] in visible and (not text.startswith("self.") or _owner(site, value) is home)
    )
    return [*dict.fromkeys(readable)]


def _owner(site: Site, node: ast.AST) -> ast.AST | None:
    """Return the class around a node, whose attributes ``self`` has there."""
    return next((around for around in site.ctx.ancestors(node) if isinstance(around, ast.ClassDef)), None)


def _stored(body: list[ast.stmt], before: ast.expr | None = None) -> set[str]:
    """Return the names that statements bind; only those ``before`` an expression, where one is given."""
    earlier = (s for s in body if before is None or s.lineno < before.lineno)
    nodes = (n for s in earlier if not isinstance(s, (ast.FunctionDef, ast.ClassDef)) for n in ast.walk(s))
    return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _factory(node: ast.expr, site: Site) -> ast.Call | None:
    """Return the call that made a tensor, behind the methods that only lay it out otherwise."""
    while isinstance(node, ast.Call):
        call = site.ctx.call(node)
        if call is not None and call.operation in FACTORIES:
            return node
        if not isinstance(node.func, ast.Attribute):
            return None
        node = node.func.value
    return None


def _module_moved(site: Site) -> Iterator[Fix | None]:
    """Yield fixes that move a module to the device, where it is made."""
    made = site.expression if site.is_origin else _made(site)
    if made is None:
        return
    for reference, _ in islice(references(site, made), _REFERENCES):
        yield site.fix(f"Move the module with `.to({reference})`", site.with_call(made, f"to({reference})"))
    for argument in (k.value for k in made.keywords) if isinstance(made, ast.Call) else ():
        for reference, _ in islice(references(site, made), 1):
            title = f"Move `{_short(site.ctx.source_of(argument))}` with `.to({reference})`"
            yield site.fix(title, site.with_call(argument, f"to({reference})"))


def _made(site: Site) -> ast.expr | None:
    """Return what the module that was called is bound to."""
    name = site.fact("operand")
    holder = (
        name.partition("[")[0].rpartition(".weight")[0] or name.partition("[")[0] if isinstance(name, str) else None
    )
    node = site.written(holder) if holder else None
    called = site.expression
    if node is None and isinstance(called, ast.Call):
        node = called.func
    made = site.binding(node) if node is not None else None
    if made is None and holder and site.statement is not None:
        made = _attribute(site, holder)
    return made


def _attribute(site: Site, text: str) -> ast.expr | None:
    """Return what an attribute of self is bound to anywhere in the file."""
    for statement in ast.walk(site.ctx.tree):
        if isinstance(statement, ast.Assign) and any(site.ctx.text(target) == text for target in statement.targets):
            return statement.value
    return None


def _generator(site: Site) -> Iterator[Fix | None]:
    """Yield fixes for a random generator of another device than the tensors it is to fill."""
    for node in ast.walk(site.ctx.tree):
        if isinstance(node, ast.Call) and (site.ctx.name(node.func) or "") == "torch.Generator":
            for reference, _ in islice(references(site, node), 1):
                edit = with_keyword(site.ctx, node, "device", reference)
                yield site.fix(f"Create the generator with `device={reference}`", edit)
