"""Rule DG764: a moving average of weights that keeps next to nothing of what it was."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Edit, Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import Constant
from drygrad.static.syntax import argument
from drygrad.static.tree import walk

_DECAY = re.compile(r"(^|_)(decay|ema_decay|momentum|ema_momentum)$", re.I)
_CAST = frozenset({"data", "detach", "clone", "to", "float"})
_MOST = 0.1


class AverageTakesNew(Rule):
    """
    ## What it does
    Finds a moving average of parameters that gives the new value a weight of 0.9 or more: `e.mul_(1 - decay).add_(p,
    alpha=decay)` with a decay of 0.999 (or a variable named so), and other ways to write it.

    ## Why is this bad?
    The factors are swapped. The average follows the model in each step and averages nothing: the teacher is the student
    of the previous step, the target network is the network itself.

    ## Example
    ```python
    for e, p in zip(ema.parameters(), model.parameters()):
        e.data.mul_(0.001).add_(p.data, alpha=0.999)
    ```
    Use instead:
    ```python
    for e, p in zip(ema.parameters(), model.parameters()):
        e.data.mul_(0.999).add_(p.data, alpha=0.001)
    ```

    ## Fix safety
    Unsafe: it changes the average.
    """

    code, name, since = "DG764", "average-takes-new", "0.1"
    severity = "warning"
    VALID = [
        Valid("d = 0.99\nfor e, p in zip(ema.parameters(), m.parameters()):\n    e.data.mul_(d).add_(p, alpha=1 - d)"),
        Valid(
            "tau = 0.005\nfor t, p in zip(a.parameters(), m.parameters()):\n    t.data.copy_(tau * p + (1 - tau) * t)"
        ),
        Valid("for e, p in zip(ema.parameters(), m.parameters()):\n    e.lerp_(p, 0.001)"),
        Valid(
            "def f(tau):\n    for t, p in zip(a.parameters(), m.parameters()):\n"
            "        t.copy_(t * tau + p * (1 - tau))"
        ),
        Valid("for e, p in zip(xs, ys):\n    e.mul_(0.1).add_(p)"),
    ]
    INVALID = [
        Invalid(
            "d = 0.999\nfor e, p in zip(ema.parameters(), m.parameters()):\n"
            "    e.data.mul_(1 - d).add_(p.data, alpha=d)",
            "d = 0.999\nfor e, p in zip(ema.parameters(), m.parameters()):\n"
            "    e.data.mul_(d).add_(p.data, alpha=1 - d)",
            at=(3, 4, 3, 44),
        ),
        Invalid(
            "tau = 0.005\nfor t, p in zip(a.parameters(), m.parameters()):\n"
            "    t.data.copy_(tau * t.data + (1 - tau) * p.data)",
            "tau = 0.005\nfor t, p in zip(a.parameters(), m.parameters()):\n"
            "    t.data.copy_((1 - tau) * t.data + (tau) * p.data)",
        ),
        Invalid(
            "def f(ema, m, decay):\n    for e, p in zip(ema.parameters(), m.parameters()):\n"
            "        e.data = (1 - decay) * e.data + decay * p.data",
            "def f(ema, m, decay):\n    for e, p in zip(ema.parameters(), m.parameters()):\n"
            "        e.data = (decay) * e.data + (1 - decay) * p.data",
        ),
        Invalid("for e, p in zip(ema.parameters(), m.parameters()):\n    e.lerp_(p, 0.99)"),
    ]

    def visit_for(self, node: ast.For, ctx: Context) -> Iterator[Finding]:
        if not _pairs_parameters(node.iter):
            return
        for statement in node.body:
            for place in (n for n in walk(statement) if isinstance(n, (ast.Call, ast.Assign))):
                mixed = _mixed(place)
                if mixed is None:
                    continue
                old, new = mixed
                if not _is_swapped(old, new, ctx):
                    continue
                message = "the new value gets almost all of the weight, so this does not average anything"
                edits = (_put(ctx, old, new), _put(ctx, new, old)) if old is not None else ()
                yield ctx.finding(self, place, message, fixes=[ctx.fix("Swap the factors", *edits)])
                break


def _put(ctx: Context, place: ast.expr, other: ast.expr) -> Edit:
    """Write another factor in the place of one."""
    text = ctx.source_of(other)
    is_loose = isinstance(other, ast.BinOp) and not isinstance(place, ast.BinOp)
    return ctx.replace(place, f"({text})" if is_loose and isinstance(ctx.parent(place), ast.BinOp) else text)


def _pairs_parameters(source: ast.expr) -> bool:
    match source:
        case ast.Call(func=ast.Name(id="zip"), args=[first, second]):
            return all(
                "parameters(" in ast.unparse(part) or "state_dict(" in ast.unparse(part) for part in (first, second)
            )
        case _:
            return False


def _mixed(node: ast.Call | ast.Assign) -> tuple[ast.expr | None, ast.expr] | None:
    """Return the weights of the old and of the new value in a moving average; None for anything else."""
    match node:
        case ast.Call(
            func=ast.Attribute(value=ast.Call(func=ast.Attribute(attr="mul_"), args=[old]), attr="add_"),
            args=[given, *_],
        ):
            alpha = argument(node, "alpha")
            new = alpha if alpha is not None else _weight(given, None)
            return (old, new) if new is not None else None
        case ast.Call(func=ast.Attribute(attr="lerp_"), args=[_, new]):
            return None, new
        case ast.Call(func=ast.Attribute(value=target, attr="copy_"), args=[ast.BinOp(op=ast.Add()) as total]):
            return _weights(total, target)
        case ast.Assign(targets=[target], value=ast.BinOp(op=ast.Add()) as total):
            return _weights(total, target)
        case _:
            return None


def _weights(total: ast.BinOp, target: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    name = _plain(target)
    old = _weight(total.left, name) or _weight(total.right, name)
    for part in (total.left, total.right):
        if old is not None and not any(n is old for n in walk(part)):
            new = _weight(part, None)
            return (old, new) if new is not None else None
    return None


def _weight(product: ast.expr, name: str | None) -> ast.expr | None:
    """Return the factor of a parameter (of that name), or of whatever else is multiplied."""
    match product:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            pairs = ((left, right), (right, left))
            return next((factor for value, factor in pairs if _is_value(value, factor, name)), None)
        case _:
            return None


def _is_value(value: ast.expr, factor: ast.expr, name: str | None) -> bool:
    """Say whether one of two factors is the parameter (of that name), and the other its weight."""
    plain = _plain(value)
    if name is not None:
        return plain == name
    written = isinstance(value, (ast.Attribute, ast.Call)) or isinstance(factor, (ast.BinOp, ast.Constant))
    return plain is not None and not _DECAY.search(plain) and written


def _plain(node: ast.expr) -> str | None:
    """Return the name of a parameter, ``.data`` and ``.detach()`` aside."""
    while True:
        match node:
            case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _CAST:
                node = inner
            case ast.Attribute(value=inner, attr=name) if name in _CAST:
                node = inner
            case _:
                return dotted_text(node)


def _is_swapped(old: ast.expr | None, new: ast.expr, ctx: Context) -> bool:
    """Say whether the old value gets next to nothing: by the numbers, or by what the factor is called."""
    numbers = [_number(part, ctx) for part in ((old, new) if old is not None else (new,))]
    if all(number is not None for number in numbers):
        kept = numbers[0] if old is not None else None
        weight = numbers[-1]
        return weight is not None and 1 - _MOST <= weight < 1 and (kept is None or kept <= _MOST)
    match old:
        case ast.BinOp(left=ast.Constant(value=1 | 1.0), op=ast.Sub(), right=decay):
            text, other = dotted_text(decay), dotted_text(new)
            return text is not None and text == other and _DECAY.search(text.rpartition(".")[2]) is not None
        case _:
            return False


def _number(node: ast.expr, ctx: Context) -> float | None:
    value = ctx.value(node)
    if isinstance(value, Constant) and isinstance(value.value, (int, float)) and not isinstance(value.value, bool):
        return float(value.value)
    match node:
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            first, second = _number(left, ctx), _number(right, ctx)
            return first - second if first is not None and second is not None else None
        case _:
            return None
