"""Attention that is written out, as one call of ``scaled_dot_product_attention`` in the text."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from drygrad.dryrun.what_if.chains import Chain, made_by
from drygrad.model import Edit
from drygrad.static.context import Context
from drygrad.static.editing import as_operand, written_as
from drygrad.static.facts.values import Dtype
from drygrad.static.numbers import number_of
from drygrad.static.syntax import class_around

_NAME = "torch.nn.functional.scaled_dot_product_attention"
_WIDTH = 100
_LAST = (-1, 3)
_TURNED = ({-1, -2}, {2, 3})
_SOFTMAX = ("torch.softmax", "torch.nn.functional.softmax")
_FLOAT32 = Dtype("float32")
_PRODUCTS = ("torch.matmul", "torch.bmm")
_OVERWHELMING = -1e9
"""Scores that are added to so large a number are lost, so that rows of which all is masked stay uniform."""


@dataclass
class _Attention:
    """The texts of what one attention is made of."""

    query: ast.expr
    key: ast.expr
    value: ast.expr
    options: list[str] = field(default_factory=list[str])
    operands: list[ast.AST] = field(default_factory=list[ast.AST])


def in_one_kernel(ctx: Context) -> list[Edit | None]:
    """Rewrite each attention whose form is known."""
    name = written_as(ctx, _NAME)
    edits: list[Edit | None] = []
    for node in ctx.nodes(ast.BinOp, ast.Call) if name is not None else ():
        chain = Chain(ctx, node)
        found = _attention(chain, node)
        operands = [found.query, found.key, *found.operands] if found is not None else []
        if found is not None and chain.holds(operands):
            edits += [*chain.removed(), ctx.replace(node, _call(ctx, node, f"{name}", found))]
    return edits


def _call(ctx: Context, node: ast.expr, name: str, found: _Attention) -> str:
    parts = [*map(ctx.source_of, (found.query, found.key, found.value)), *found.options]
    line = f"{name}({', '.join(parts)})"
    if node.col_offset + len(line) <= _WIDTH:
        return line
    indentation, newline = ctx.source.indentation(ctx.statement(node).lineno), ctx.source.newline
    return f"{name}({newline}{''.join(f'{indentation}    {part},{newline}' for part in parts)}{indentation})"


def _attention(chain: Chain, node: ast.expr) -> _Attention | None:
    """Return the attention that a product of weights and values ends; from the end, each step is known or all fails."""
    outer = _factors(chain.ctx, node)
    weights = chain.follow(outer[0]) if outer is not None else None
    if outer is None or weights is None:
        return None
    options: list[str] = []
    operands: list[ast.AST] = []
    dropped = _dropout(chain.ctx, weights)
    if dropped is not None:
        rate, weights = dropped[0], chain.follow(dropped[1])
        options.append(f"dropout_p={rate}")
    scores = _softmax(chain.ctx, weights)
    scores = chain.follow(scores) if scores is not None else None
    masked = _masked(chain, scores, outer[1])
    if masked is not None:
        scores, mask, operand = masked
        options.insert(0, mask)
        operands.append(operand)
        scores = chain.follow(scores)
    scaled, scale = _scaled(chain, scores), "1.0"
    if scaled is not None:
        scores, scale, operand = scaled
        operands.append(operand)
        scores = chain.follow(scores)
    options.append(f"scale={scale}")
    inner = _factors(chain.ctx, scores)
    key = _turned(chain.ctx, inner[1]) if inner is not None else None
    if inner is None or key is None or chain.guard is not None:
        return None
    return _Attention(inner[0], key, outer[1], options, operands)


def _factors(ctx: Context, node: ast.expr | None) -> tuple[ast.expr, ast.expr] | None:
    match node:
        case ast.BinOp(left, ast.MatMult(), right):
            return left, right
        case ast.Call(function, [left, right], []) if ctx.name(function) in _PRODUCTS:
            return left, right
        case ast.Call(ast.Attribute(left, "matmul"), [right], []):
            return left, right
        case _:
            return None


def _turned(ctx: Context, node: ast.expr) -> ast.expr | None:
    """Return what a product takes with its last two dimensions exchanged."""
    match node:
        case ast.Attribute(key, "mT"):
            return key
        case ast.Call(ast.Attribute(key, "transpose"), [first, second], []) if {
            number_of(first, ctx),
            number_of(second, ctx),
        } in _TURNED:
            return key
        case _:
            return None


def _softmax(ctx: Context, node: ast.expr | None) -> ast.expr | None:
    """Return what softmax is taken of, over the last dimension; in float32, as the one kernel does, or not."""
    node = _cast_back(node)
    match node:
        case ast.Call(function, [scores, dim], [*rest]) | ast.Call(
            function, [scores], [ast.keyword("dim", dim), *rest]
        ) if ctx.name(function) in _SOFTMAX and _is_in_float32(ctx, rest):
            pass
        case ast.Call(ast.Call(made, [], [ast.keyword("dim", dim)]), [scores], []) if (
            ctx.name(made) == "torch.nn.Softmax"
        ):
            pass
        case ast.Call(ast.Attribute(scores, "softmax"), [dim], []) | ast.Call(
            ast.Attribute(scores, "softmax"), [], [ast.keyword("dim", dim)]
        ):
            pass
        case _:
            return None
    return _upcast(ctx, scores) if number_of(dim, ctx) in _LAST else None


def _is_in_float32(ctx: Context, options: list[ast.keyword]) -> bool:
    match options:
        case []:
            return True
        case [ast.keyword("dtype", dtype)]:
            return ctx.value(dtype) == _FLOAT32
        case _:
            return False


def _cast_back(node: ast.expr | None) -> ast.expr | None:
    """Return weights before they get the dtype of another tensor back: ``.to(query.dtype)``, ``.type_as(query)``."""
    match node:
        case ast.Call(ast.Attribute(weights, "to"), [ast.Attribute(ast.Name(), "dtype")], []):
            return weights
        case ast.Call(ast.Attribute(weights, "type_as"), [ast.Name()], []):
            return weights
        case _:
            return node


def _upcast(ctx: Context, node: ast.expr) -> ast.expr:
    """Return scores before they are made float32 for softmax."""
    match node:
        case ast.Call(ast.Attribute(scores, "float"), [], []):
            return scores
        case ast.Call(ast.Attribute(scores, "to"), [dtype], []) if ctx.value(dtype) == _FLOAT32:
            return scores
        case _:
            return node


def _dropout(ctx: Context, node: ast.expr) -> tuple[str, ast.expr] | None:
    """Return how likely weights are dropped, and the weights."""
    match node:
        case ast.Call(ast.Attribute(ast.Name("self"), name), [weights], []) if made_by(ctx, node, name) == (
            "torch.nn.Dropout"
        ):
            return f"self.{name}.p if self.training else 0.0", weights
        case ast.Call(function, [weights, rate], options) if ctx.name(function) == "torch.nn.functional.dropout":
            pass
        case ast.Call(function, [weights], [ast.keyword("p", rate), *options]) if (
            ctx.name(function) == "torch.nn.functional.dropout"
        ):
            pass
        case _:
            return None
    match options:
        case []:
            return ctx.source_of(rate), weights
        case [ast.keyword("training", training)]:
            return f"{ctx.source_of(rate)} if {ctx.source_of(training)} else 0.0", weights
        case _:
            return None


def _masked(chain: Chain, node: ast.expr | None, value: ast.expr) -> tuple[ast.expr, str, ast.AST] | None:
    """Return the scores before a mask, the option that gives it, and what it is made of."""
    match node:
        case ast.Call(ast.Attribute(scores, "masked_fill"), [hidden, filling], []):
            found = _is_causal(chain.ctx, hidden) and chain.guard is None and _is_infinite(chain.ctx, filling)
            text = "is_causal=True" if found else _shown(chain.ctx, hidden, filling, value)
            operand: ast.AST = hidden
        case ast.BinOp(scores, ast.Add(), (ast.Name() | ast.Attribute() | ast.Subscript()) as added):
            text, operand = f"attn_mask={chain.ctx.source_of(added)}", added
        case _:
            return None
    if text is None:
        return None
    guard, chain.guard = chain.guard, None
    if guard is not None:
        text = text.replace("attn_mask=", f"attn_mask=None if {guard.id} is None else ", 1)
    return scores, text, operand


def _shown(ctx: Context, hidden: ast.expr, filling: ast.expr, value: ast.expr) -> str | None:
    """Return the option for a mask that hides where it is true: where the option's is true, there is attention."""
    if not _is_infinite(ctx, filling):
        return _added(ctx, hidden, filling, value)
    match hidden:
        case ast.Compare(left, [ast.Eq()], [ast.Constant(0) as zero]):
            return f"attn_mask={ctx.source_of(left)} != {ctx.source_of(zero)}"
        case ast.UnaryOp(ast.Invert(), shown):
            return f"attn_mask={ctx.source_of(shown)}"
        case _:
            return f"attn_mask=~{as_operand(ctx, hidden)}"


def _is_infinite(ctx: Context, node: ast.expr) -> bool:
    """Say whether scores are filled with minus infinity."""
    match node:
        case ast.Call(ast.Name("float"), [ast.Constant(str(text))], []):
            return text.strip().lower() in ("-inf", "-infinity")
        case ast.UnaryOp(ast.USub(), inner) if ctx.name(inner) in ("math.inf", "torch.inf", "numpy.inf"):
            return True
        case _:
            return False


def _added(ctx: Context, hidden: ast.expr, filling: ast.expr, value: ast.expr) -> str | None:
    """Return the option for a mask that fills with a finite number, beside which scores vanish if it is added."""
    number, where = number_of(filling, ctx), written_as(ctx, "torch.where")
    if number is None or number > _OVERWHELMING or where is None or not isinstance(value, ast.Name):
        return None
    chosen = f"{where}({ctx.source_of(hidden)}, {ctx.source_of(filling)}, 0.0)"
    return f"attn_mask={chosen}.to({value.id}.dtype)"


def _is_causal(ctx: Context, hidden: ast.expr) -> bool:
    """Say whether a mask is ``self.lower[..., :n, :n] == 0``, of a buffer that is a lower triangle of ones."""
    match hidden:
        case ast.Compare(
            ast.Subscript(ast.Attribute(ast.Name("self"), name), ast.Tuple([*_, rows, columns])),
            [ast.Eq()],
            [ast.Constant(0)],
        ):
            pass
        case _:
            return False
    square = all(isinstance(s, ast.Slice) and s.lower is None and s.upper and s.step is None for s in (rows, columns))
    if not square or ast.dump(rows) != ast.dump(columns):
        return False
    return _is_triangle(ctx, _buffer(ctx, hidden, name))


def _buffer(ctx: Context, node: ast.AST, name: str) -> ast.expr | None:
    cls = class_around(node, ctx)
    found: list[ast.expr] = []
    for call in ast.walk(cls) if cls is not None else ():
        match call:
            case ast.Call(ast.Attribute(ast.Name("self"), "register_buffer"), [ast.Constant(known), value, *_]) if (
                known == name
            ):
                found.append(value)
            case ast.Attribute(ast.Name("self"), known, ast.Store()) if known == name:
                return None
            case _:
                pass
    return found[0] if len(found) == 1 else None


def _is_triangle(ctx: Context, node: ast.expr | None) -> bool:
    match node:
        case ast.Call(ast.Attribute(inner, "view" | "bool" | "reshape"), _, []):
            return _is_triangle(ctx, inner)
        case ast.Call(function, [ast.Call(ones)], []):
            return ctx.name(function) == "torch.tril" and ctx.name(ones) == "torch.ones"
        case _:
            return False


def _scaled(chain: Chain, node: ast.expr | None) -> tuple[ast.expr, str, ast.AST] | None:
    """Return the scores before they are scaled, and the number."""
    ctx = chain.ctx
    match node:
        case ast.BinOp(scores, ast.Div(), number) if _leads(chain, scores):
            return scores, f"1.0 / {as_operand(ctx, number)}", number
        case ast.BinOp(scores, ast.Mult(), number) if _leads(chain, scores):
            return scores, ctx.source_of(number), number
        case ast.BinOp(number, ast.Mult(), scores) if _leads(chain, scores):
            return scores, ctx.source_of(number), number
        case _:
            return None


def _leads(chain: Chain, node: ast.expr) -> bool:
    return _factors(chain.ctx, chain.peek(node)) is not None
