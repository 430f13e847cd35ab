"""A loss over a vocabulary in chunks of positions, in the text: the numbers for each word are never there at once."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from drygrad.dryrun.what_if.chains import Chain, made_by, maker_of, stored
from drygrad.model import Edit
from drygrad.static.context import Context
from drygrad.static.editing import as_operand, free_name, inserted, written_as
from drygrad.static.numbers import number_of

_LOSS, _LAYER = "torch.nn.functional.cross_entropy", "torch.nn.Linear"
_OBJECT = "torch.nn.CrossEntropyLoss"
_SHIFTS = ("(..., :-1, :)", "(:, :-1, :)", "(:, :-1)")
"""How all positions but the last are written."""
_CHUNK = 1024
_IGNORED = -100
"""Positions with this target do not count, by default."""


def in_chunks(ctx: Context) -> list[Edit | None]:
    """Rewrite each loss of a linear layer's results that nothing else reads; ``checkpoint`` is to be imported."""
    edits: list[Edit | None] = []
    for call in ctx.nodes(ast.Call):
        options = _options(ctx, call)
        if options is not None:
            edits += _rewritten(ctx, call, options)
    return edits


def _options(ctx: Context, call: ast.Call) -> list[ast.keyword] | None:
    """Return the options of a loss, whether a function or an object computes it; None where a call is none."""
    if ctx.name(call.func) == _LOSS:
        return call.keywords
    match call.func:
        case ast.Attribute(ast.Name("self"), name) if not call.keywords:
            made = maker_of(ctx, call, name)
        case ast.Name(name) if not call.keywords:
            made = _bound_once(ctx, call, name)
        case _:
            return None
    is_loss = made is not None and not made.args and ctx.name(made.func) == _OBJECT
    return made.keywords if is_loss and made is not None else None


def _bound_once(ctx: Context, node: ast.AST, name: str) -> ast.Call | None:
    """Return the call whose result a name stands for: in the function where it is read, else in the whole file."""
    for scope in filter(None, (ctx.function(node), ctx.tree)):
        bound = [s for s in ast.walk(scope) if isinstance(s, ast.stmt) and name in _names(s)]
        if bound:
            match bound:
                case [ast.Assign([ast.Name()], ast.Call() as made)]:
                    return made
                case _:
                    return None
    return None


def _names(statement: ast.stmt) -> list[str]:
    """Return the names that a statement binds itself, without those of the statements in it."""
    parts = [n for n in ast.iter_child_nodes(statement) if not isinstance(n, (ast.stmt, ast.ExceptHandler))]
    return [name for part in parts for name in stored(part)]


@dataclass
class _Head:
    """The layer that a loss is computed of, what it is given, and what is done to its results."""

    layer: ast.expr
    given: ast.expr
    shifted: bool = False
    """Whether the last position is left out: it has no target."""
    upcast: bool = False

    def rows(self, ctx: Context) -> str:
        """Return the text of what the layer is given."""
        text = as_operand(ctx, self.given)
        return f"{text}[..., :-1, :]" if self.shifted else text

    def logits(self, ctx: Context, rows: str) -> str:
        """Return the text of what the loss is given."""
        return f"{ctx.source_of(self.layer)}({rows}){'.float()' if self.upcast else ''}"


def _head(chain: Chain, logits: ast.expr) -> _Head | None:
    """Return what makes logits; from the end, each step is known or all fails."""
    shifted = upcast = False
    node = chain.follow(logits)
    while node is not None:
        match node:
            case ast.Call(ast.Attribute(ast.Name("self"), name) as layer, [given], []) if (
                made_by(chain.ctx, chain.statement, name) == _LAYER
            ):
                return _Head(layer, given, shifted, upcast)
            case ast.Call(ast.Attribute(inner, "contiguous"), [], []):
                node = chain.follow(inner)
            case ast.Call(ast.Attribute(inner, "float"), [], []) if not upcast:
                upcast, node = True, chain.follow(inner)
            case ast.Subscript(inner, ast.Tuple() as index) if not shifted and ast.unparse(index) in _SHIFTS:
                shifted, node = True, chain.follow(inner)
            case _:
                return None
    return None


def _rewritten(ctx: Context, call: ast.Call, options: list[ast.keyword]) -> list[Edit | None]:
    parts = _flat(call)
    function_name = written_as(ctx, _LOSS)
    if parts is None or function_name is None:
        return []
    chain = Chain(ctx, call)
    logits, width, target = parts
    head = _head(chain, logits)
    chain.read(width)
    if head is None:
        return []
    ignored = _ignored(ctx, options)
    function = free_name(ctx, chain.statement, "summed_loss", "loss_of_chunk")
    rows, wanted = (free_name(ctx, chain.statement, *names) for names in (("hidden", "rows"), ("wanted", "labels")))
    stack = written_as(ctx, "torch.stack")
    if ignored is None or None in (function, rows, wanted, stack) or not chain.holds([head.given, head.layer]):
        return []
    before = [
        f"def {function}({rows}, {wanted}):",
        f'    return {function_name}({head.logits(ctx, f"{rows}")}, {wanted}, ignore_index={ignored}, reduction="sum")',
        f"{rows}, {wanted} = {head.rows(ctx)}.flatten(0, -2), {ctx.source_of(target)}",
        f"chunks = zip({rows}.split({_CHUNK}), {wanted}.split({_CHUNK}))",
        f"losses = [checkpoint({function}, *chunk, use_reentrant=False) for chunk in chunks]",
    ]
    if free_name(ctx, chain.statement, "chunks") is None or free_name(ctx, chain.statement, "losses") is None:
        return []
    text = f"{ctx.source.newline}{ctx.source.indentation(chain.statement.lineno)}".join(before)
    total = f"{stack}(losses).sum() / ({wanted} != {ignored}).sum()"
    total = total if isinstance(ctx.parent(call), (ast.Return, ast.Assign)) else f"({total})"
    return [*chain.removed(), inserted(ctx, chain.statement, text), ctx.replace(call, total)]


def _flat(call: ast.Call) -> tuple[ast.Name, list[ast.AST], ast.expr] | None:
    """Return what the loss is of, what its width is read from, and the targets, where both are made flat."""
    match call.args:
        case [ast.Call(ast.Attribute(ast.Name() as logits, "view" | "reshape"), [rows, width], []), target]:
            is_flat = isinstance(rows, ast.UnaryOp) and ast.unparse(rows) == "-1"
            return (logits, [width], target) if is_flat and _is_flat(target) else None
        case [ast.Call(ast.Attribute(ast.Name() as logits, "flatten"), [ast.Constant(0), ast.Constant(1)], []), target]:
            return (logits, [], target) if _is_flat(target) else None
        case _:
            return None


def _is_flat(target: ast.expr) -> bool:
    match target:
        case ast.Call(ast.Attribute(ast.Name(), "flatten"), [], []):
            return True
        case ast.Call(ast.Attribute(ast.Name(), "view" | "reshape"), [size], []):
            return ast.unparse(size) == "-1"
        case _:
            return False


def _ignored(ctx: Context, options: list[ast.keyword]) -> int | None:
    """Return the target that does not count; None where the loss has options beside it."""
    match options:
        case []:
            return _IGNORED
        case [ast.keyword("ignore_index", value)]:
            number = number_of(value, ctx)
            return int(number) if number is not None else None
        case _:
            return None
