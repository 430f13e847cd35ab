"""Rule DG735: an iterator over parameters that is used a second time, when it is empty."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import ParameterList, Reference
from drygrad.static.syntax import block_of, called, own_nodes, rebound_between, scope_of
from drygrad.static.tree import walk

_LAZY = frozenset({"builtins.filter", "builtins.map", "builtins.zip", "itertools.chain"})
_READS = ("builtins.", "torch.")
_LEAVES = frozenset({"builtins.print", "builtins.next", "builtins.isinstance", "builtins.type", "builtins.id"})


class ExhaustedIterator(Rule):
    """
    ## What it does
    Finds `params = model.parameters()` (also `filter(...)`, `map(...)` and generators over parameters) that is consumed
    twice: by the optimizer and then by `clip_grad_norm_`, or in every iteration of a loop.

    ## Why is this bad?
    `parameters()` returns a generator. The optimizer exhausts it, so the next consumer gets nothing: gradients are not
    clipped, weights are not averaged, nothing is counted. Nothing raises; of torch's own functions, only
    `clip_grad_norm_` warns, in recent releases.

    ## Example
    ```python
    params = model.parameters()
    optimizer = torch.optim.SGD(params, lr=0.1)
    torch.nn.utils.clip_grad_norm_(params, 1.0)
    ```
    Use instead:
    ```python
    params = list(model.parameters())
    optimizer = torch.optim.SGD(params, lr=0.1)
    torch.nn.utils.clip_grad_norm_(params, 1.0)
    ```

    ## Fix safety
    Unsafe: code that had nothing to work on now takes effect.
    """

    code, name, since = "DG735", "exhausted-iterator", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            "def f(bucket, optimizer):\n    parts = bucket.parameters()\n    if len(parts) > 0:\n"
            "        for p in parts:\n            p.grad = None\n    for p in parts:\n        optimizer.drop(p)"
        ),
        Valid("p = list(model.parameters())\no = torch.optim.SGD(p, 0.1)\nnn.utils.clip_grad_norm_(p, 1.0)"),
        Valid(
            "p = model.parameters()\no = torch.optim.SGD(p, 0.1)\np = model.parameters()\nn = sum(x.numel() for x in p)"
        ),
        Valid("p = model.parameters()\nprint(p)\no = torch.optim.SGD(p, 0.1)"),
        Valid("p = model.parameters()\nif adam:\n    o = torch.optim.Adam(p)\nelse:\n    o = torch.optim.SGD(p, 0.1)"),
        Valid("def f(self):\n    names = filter(None, a)\n    return [*names]"),
    ]
    INVALID = [
        Invalid(
            """
            model: nn.Linear = build()
            params = model.parameters()
            optimizer = torch.optim.SGD(params, lr=0.1)
            for x in loader:
                model(x).sum().backward()
                nn.utils.clip_grad_norm_(params, 1.0)
                optimizer.step()
            """,
            """
            model: nn.Linear = build()
            params = list(model.parameters())
            optimizer = torch.optim.SGD(params, lr=0.1)
            for x in loader:
                model(x).sum().backward()
                nn.utils.clip_grad_norm_(params, 1.0)
                optimizer.step()
            """,
            at=(6, 29, 6, 35),
        ),
        Invalid(
            """
            def build(model):
                trainable = filter(lambda p: p.requires_grad, model.parameters())
                print(sum(p.numel() for p in trainable))
                return torch.optim.Adam(trainable, lr=1e-3)
            """,
            """
            def build(model):
                trainable = list(filter(lambda p: p.requires_grad, model.parameters()))
                print(sum(p.numel() for p in trainable))
                return torch.optim.Adam(trainable, lr=1e-3)
            """,
        ),
    ]

    def visit_assign(self, node: ast.Assign, ctx: Context) -> Iterator[Finding]:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_iterator(value, ctx):
                pass
            case _:
                return
        scope = scope_of(node, ctx)
        if any(_is_counted(n, ctx) for n in _within(scope, name)):
            return
        uses = [n for n in _within(scope, name) if n.lineno > node.lineno and _consumes(n, ctx)]
        uses = [n for n in uses if not rebound_between(name, node, n, scope)]
        if not uses:
            return
        first = uses[0]
        again = next((n for n in uses[1:] if _follows_surely(first, n, ctx)), None)
        if again is None and _loops_beyond(first, node, ctx):
            again = first
        if again is None:
            return
        fix = ctx.fix("Convert it to a list", ctx.replace(value, f"list({ctx.source_of(value)})"))
        message = f"{name} is exhausted here: it is an iterator and was already consumed"
        related = [("consumed here", first)] if first is not again else []
        yield ctx.finding(self, again, message, related=related, fixes=[fix])


def _within(scope: ast.AST, name: str) -> Iterator[ast.Name]:
    roots = scope.body if isinstance(scope, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef)) else []
    for node in own_nodes(*roots):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            yield node


def _is_iterator(value: ast.expr, ctx: Context) -> bool:
    """Say whether an expression is an iterator over parameters."""
    if isinstance(ctx.value(value), ParameterList):
        return True
    match value:
        case ast.Call(func=ast.Attribute(attr="parameters" | "named_parameters"), args=[]):
            return True
        case ast.GeneratorExp(generators=[ast.comprehension(iter=source)]):
            return _is_iterator(source, ctx)
        case ast.Call(func=function, args=[*_, ast.expr()] as args) if ctx.name(function) in _LAZY:
            return any(_is_iterator(argument, ctx) for argument in args)
        case _:
            return False


def _is_counted(node: ast.Name, ctx: Context) -> bool:
    """Say whether ``len`` is asked: an iterator has no length, so it is a list of somebody's own."""
    call = ctx.parent(node)
    return isinstance(call, ast.Call) and node in call.args and called(call) == "len"


def _consumes(node: ast.Name, ctx: Context) -> bool:
    """Say whether an iterator is gone through here, to its end."""
    parent = ctx.parent(node)
    match parent:
        case ast.Call(func=function) if node in parent.args:
            name = ctx.value(function)
            known = name.name if isinstance(name, Reference) else ""
            return known.startswith(_READS) and known not in _LEAVES | _LAZY
        case ast.keyword(arg="params" | "parameters"):
            return True
        case ast.For(iter=source):
            return source is node and not any(isinstance(n, ast.Break) for n in walk(parent))
        case ast.comprehension(iter=source):
            return source is node
        case ast.Starred():
            return True
        case _:
            return False


def _follows_surely(first: ast.AST, second: ast.AST, ctx: Context) -> bool:
    """Say whether what comes second is reached by way of the first: it stands in the same block or below it."""
    statement, place = ctx.statement(first), ctx.statement(second)
    block = block_of(ctx, statement)
    return place is not statement and any(n in block for n in (place, *ctx.ancestors(place)) if isinstance(n, ast.stmt))


def _loops_beyond(use: ast.AST, start: ast.stmt, ctx: Context) -> bool:
    """Say whether a use stands in a loop that the iterator was not made in."""
    made_in = ctx.loops(start)
    return any(loop not in made_in for loop in ctx.loops(use))
