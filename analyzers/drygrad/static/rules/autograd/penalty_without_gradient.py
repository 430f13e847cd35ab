"""Rule DG125: a penalty on weights that is computed from their data."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.syntax import body_nodes, called, scope_of
from drygrad.static.tree import walk

_LISTS = frozenset({"parameters", "named_parameters"})


class PenaltyWithoutGradient(Rule):
    """
    ## What it does
    Finds a penalty on a model's parameters that uses `p.data` or `p.detach()` and is added to a loss that is
    backpropagated.

    ## Why is this bad?
    To autograd the penalty is a constant: the printed loss is larger, but the weights are not penalized at all.

    ## Example
    ```python
    penalty = sum(p.data.pow(2).sum() for p in model.parameters())
    loss = loss + 1e-3 * penalty
    loss.backward()
    ```
    Use instead:
    ```python
    penalty = sum(p.pow(2).sum() for p in model.parameters())
    loss = loss + 1e-3 * penalty
    loss.backward()
    ```

    ## Fix safety
    Unsafe: it changes the gradients.
    """

    code, name, since = "DG125", "penalty-without-gradient", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            def step(model, loss):
                penalty = sum(p.pow(2).sum() for p in model.parameters())
                norm = sum(p.data.norm() for p in model.parameters())
                print(norm)
                loss = loss + 1e-3 * penalty
                loss.backward()
            """
        ),
        Valid(
            """
            def step(model, old, loss):
                drift = sum(((p - old[n].data) ** 2).sum() for n, p in model.named_parameters())
                loss += drift
                loss.backward()
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            def step(model, loss):
                l2 = sum(p.data.pow(2).sum() for p in model.parameters())
                loss = loss + 1e-3 * l2
                loss.backward()
            """,
            """
            def step(model, loss):
                l2 = sum(p.pow(2).sum() for p in model.parameters())
                loss = loss + 1e-3 * l2
                loss.backward()
            """,
            at=(2, 13, 2, 19),
        ),
        Invalid(
            """
            def step(model, loss):
                reg = 0.0
                for name, w in model.named_parameters():
                    if "bias" not in name:
                        reg += torch.norm(w.detach())
                loss += 0.01 * reg
                loss.backward()
            """,
            """
            def step(model, loss):
                reg = 0.0
                for name, w in model.named_parameters():
                    if "bias" not in name:
                        reg += torch.norm(w)
                loss += 0.01 * reg
                loss.backward()
            """,
        ),
    ]

    def visit_assign(self, node: ast.Assign, ctx: Context) -> Iterator[Finding]:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case _:
                return
        for part in walk(value):
            if isinstance(part, (ast.GeneratorExp, ast.ListComp)) and len(part.generators) == 1:
                source = part.generators[0]
                cut = _only_cut(part.elt, source.target) if _lists_parameters(source.iter) else None
                if cut is not None:
                    yield from self._judge(cut, name, node, ctx)

    def visit_for(self, node: ast.For, ctx: Context) -> Iterator[Finding]:
        if not _lists_parameters(node.iter):
            return
        for inner in body_nodes(node):
            match inner:
                case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value):
                    cut = _only_cut(value, node.target)
                    if cut is not None:
                        yield from self._judge(cut, name, inner, ctx)
                case _:
                    pass

    def _judge(self, cut: ast.expr, name: str, at: ast.stmt, ctx: Context) -> Iterator[Finding]:
        added = _added_to_loss(name, at, ctx)
        base = _base(cut)
        if added is None or base is None:
            return
        message = f"{name} is added to the loss but has no gradient: it is computed from the weights' .data"
        fix = ctx.fix("Use the weights themselves", ctx.replace(cut, ctx.source_of(base)))
        yield ctx.finding(self, cut, message, related=[("added to the loss here", added)], fixes=[fix])


def _lists_parameters(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and called(node) in _LISTS


def _only_cut(value: ast.expr, target: ast.expr) -> ast.expr | None:
    """Return where a parameter leaves the graph, if each use of it in an expression does."""
    names = [n.id for n in walk(target) if isinstance(n, ast.Name)]
    cuts: list[ast.expr] = []
    inside: set[int] = set()
    for node in walk(value):
        base = _base(node) if isinstance(node, (ast.Attribute, ast.Call)) else None
        if isinstance(base, ast.Name) and base.id == names[-1] and isinstance(node, ast.expr):
            cuts.append(node)
            inside.add(id(base))
    free = [n for n in walk(value) if isinstance(n, ast.Name) and n.id == names[-1] and id(n) not in inside]
    return cuts[0] if cuts and not free else None


def _base(node: ast.AST) -> ast.expr | None:
    """Return what ``.data``, ``.detach()`` is taken of."""
    match node:
        case ast.Attribute(value=base, attr="data"):
            return base
        case ast.Call(func=ast.Attribute(value=base, attr="detach"), args=[]):
            return base
        case _:
            return None


def _added_to_loss(name: str, at: ast.stmt, ctx: Context) -> ast.stmt | None:
    """Return the statement that adds a name to something that goes backward."""
    scope = scope_of(at, ctx)
    nodes = list(body_nodes(scope))
    backward = {
        n.func.value.id
        for n in nodes
        if isinstance(n, ast.Call)
        and called(n) == "backward"
        and isinstance(n.func, ast.Attribute)
        and isinstance(n.func.value, ast.Name)
    }
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=target)], value=ast.BinOp(op=ast.Add()) as total):
                pass
            case ast.AugAssign(target=ast.Name(id=target), op=ast.Add(), value=total):
                pass
            case _:
                continue
        reads = any(isinstance(n, ast.Name) and n.id == name for n in walk(total))
        if target in backward and target != name and reads and node.lineno > at.lineno:
            return node
    return None
