"""Rule DG117: a term of the loss that left the graph."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Tensor, Value
from drygrad.static.rules.autograd.reaching import reach_of
from drygrad.static.rules.autograd.terms import differentiated, terms_of


class LossTermCut(Rule):
    """
    ## What it does
    Finds loss terms that have no gradient, because they are the `item()` of a tensor or come from `argmax` or a
    comparison, while another term keeps `backward()` from raising. A dry run also finds terms that were computed in a
    function under `@torch.no_grad()`.

    ## Why is this bad?
    The term changes the printed loss and nothing else: it has no gradient, so it trains nothing. Without the other term
    `backward()` would raise (DG106).

    ## Example
    ```python
    scores = nn.Linear(8, 4)(x)
    loss = F.cross_entropy(scores, labels) + 0.1 * scores.pow(2).mean().item()
    loss.backward()
    ```
    Use instead:
    ```python
    scores = nn.Linear(8, 4)(x)
    loss = F.cross_entropy(scores, labels) + 0.1 * scores.pow(2).mean()
    loss.backward()
    ```

    ## Fix safety
    Unsafe: the term now affects training.
    """

    code, name, since = "DG117", "loss-term-cut", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            def step(model: nn.Linear, x, y, total):
                loss = F.mse_loss(model(x), y)
                loss.backward()
                total = total + loss.item()
                return total
            """
        ),
        Valid(
            """
            def step(model: nn.Linear, x, y):
                output = model(x)
                scale = output.abs().max().item()
                loss = F.mse_loss(output, y) / scale + (output - output.detach()).mean()
                loss.backward()
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            def step(model: nn.Linear, x, y):
                output = model(x)
                penalty = output.pow(2).mean().item()
                loss = F.mse_loss(output, y) + 0.1 * penalty
                loss.backward()
            """,
            """
            def step(model: nn.Linear, x, y):
                output = model(x)
                penalty = output.pow(2).mean()
                loss = F.mse_loss(output, y) + 0.1 * penalty
                loss.backward()
            """,
            at=(3, 14, 3, 41),
        ),
        Invalid(
            """
            def step(model: nn.Linear, x, y):
                logits = model(x)
                errors = (logits.argmax(dim=1) != y).float().mean()
                loss = F.cross_entropy(logits, y) + errors
                loss.backward()
            """
        ),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        reported: set[ast.AST] = set()
        for backward, root in differentiated(ctx):
            trains = isinstance(root, Tensor) and reach_of(ctx, [(root, None)]).trains
            for term in terms_of(root) if trains else ():
                cut = _cut(term, ctx) if term is not root else None
                if cut is None or cut in reported:
                    continue
                reported.add(cut)
                yield ctx.finding(
                    self,
                    cut,
                    f"{_what(cut)} cuts this loss term out of the graph; it contributes no gradient",
                    related=[("the loss is differentiated here", backward)],
                    fixes=[_kept(cut, ctx)],
                )


def _cut(term: Value, ctx: Context) -> ast.expr | None:
    """Return what took a term out of the graph; None for terms that were detached on purpose, or have a gradient."""
    ends = [end.at for end in reach_of(ctx, [(term, None)]).ends if end.kind in ("number", "choice", "copy")]
    return ends[0] if ends else None


def _what(cut: ast.expr) -> str:
    match cut:
        case ast.Call(func=ast.Attribute(attr=name)):
            return f"{name}()"
        case ast.Compare():
            return "the comparison"
        case _:
            return "this operation"


def _kept(cut: ast.expr, ctx: Context) -> Fix | None:
    match cut:
        case ast.Call(func=ast.Attribute(value=before, attr="item"), args=[], keywords=[]):
            return ctx.fix("Remove `item()` to keep the graph", ctx.replace(cut, ctx.source_of(before)))
        case _:
            return None
