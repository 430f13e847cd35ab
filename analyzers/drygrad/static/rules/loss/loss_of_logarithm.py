"""Rule DG330: losses that take logarithms and get none, or take none and get some."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Edit, Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import as_operand, with_keyword
from drygrad.static.facts.values import Constant, Origin, TorchCall
from drygrad.static.rules.loss.activations import related
from drygrad.static.rules.loss.origins import LOGITS, maker

_RATES = frozenset({"softplus", "relu", "exp", "sigmoid", "square", "abs", "elu"})


class LossOfLogarithm(Rule):
    """
    ## What it does
    Finds `ctc_loss` on the raw output of a layer or on a `softmax`, and `poisson_nll_loss` with its default
    `log_input=True` on the result of `softplus`, `relu`, `exp` or `sigmoid`.

    ## Why is this bad?
    `ctc_loss` adds up log-probabilities and does not normalize them: with raw scores the loss drops below zero and the
    model predicts only blanks. `poisson_nll_loss` expects the logarithm of the rate and exponentiates it: a rate passed
    as its own logarithm cannot go below one, or grows without bound. Nothing raises.

    ## Example
    ```python
    loss = nn.PoissonNLLLoss()(F.softplus(x), counts)
    ```
    Use instead:
    ```python
    loss = nn.PoissonNLLLoss(log_input=False)(F.softplus(x), counts)
    ```

    ## Fix safety
    Unsafe: it changes the value of the loss.
    """

    code, name, since = "DG330", "loss-of-logarithm", "0.1"
    severity = "warning"
    calls = frozenset({"ctc_loss", "poisson_nll_loss"})
    VALID = [
        Valid("def f(x: torch.Tensor, t, a, b):\n    return F.ctc_loss(nn.Linear(8, 5)(x).log_softmax(-1), t, a, b)"),
        Valid("def f(x, y):\n    return F.poisson_nll_loss(nn.Linear(8, 1)(x), y)"),
        Valid("def f(x, y):\n    return F.poisson_nll_loss(F.softplus(x), y, log_input=False)"),
        Valid("def f(x, y):\n    return nn.PoissonNLLLoss(False)(F.softplus(x), y)"),
        Valid("def f(x, y):\n    return nn.PoissonNLLLoss()(F.softplus(x).log(), y)"),
    ]
    INVALID = [
        Invalid(
            "head = nn.Linear(16, 12)\nlogits = head(torch.randn(30, 4, 16))\nloss = nn.CTCLoss()(logits, t, a, b)",
            "head = nn.Linear(16, 12)\nlogits = head(torch.randn(30, 4, 16))\n"
            "loss = nn.CTCLoss()(logits.log_softmax(dim=-1), t, a, b)",
            at=(3, 20, 3, 26),
        ),
        Invalid(
            "def f(x, y):\n    return nn.PoissonNLLLoss(full=True)(F.softplus(x), y)",
            "def f(x, y):\n    return nn.PoissonNLLLoss(full=True, log_input=False)(F.softplus(x), y)",
        ),
        Invalid(
            "def f(x, y):\n    rate = torch.exp(x)\n    return F.poisson_nll_loss(rate, y)",
            "def f(x, y):\n    rate = torch.exp(x)\n    return F.poisson_nll_loss(rate, y, log_input=False)",
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        name = "log_probs" if call is not None and call.operation == "ctc_loss" else "input"
        given = (call.keywords.get(name) or next(iter(call.operands), None)) if call is not None else None
        made = maker(ctx.tensor(given)) if given is not None else None
        if call is None or given is None or made is None:
            return
        if call.operation == "ctc_loss" and made.operation in LOGITS | {"softmax"}:
            yield from self._scores(given, made, ctx)
        elif call.operation == "poisson_nll_loss" and made.operation in _RATES and _takes_logarithm(call):
            message = f"poisson_nll_loss expects the log of the rate; here it gets the result of {made.operation}"
            fix = ctx.fix("Pass `log_input=False`", _told(call, ctx))
            yield ctx.finding(self, given, message, related=related(ctx, given, made), fixes=[fix])

    def _scores(self, given: ast.expr, made: Origin, ctx: Context) -> Iterator[Finding]:
        what = "the result of softmax" if made.operation == "softmax" else f"the raw output of {made.operation}"
        fix: Fix | None = None
        if made.operation != "softmax":
            fix = ctx.fix("Apply `log_softmax`", ctx.replace(given, f"{as_operand(ctx, given)}.log_softmax(dim=-1)"))
        message = f"ctc_loss expects log-probabilities; here it gets {what}"
        yield ctx.finding(self, given, message, related=related(ctx, given, made), fixes=[fix])


def _takes_logarithm(call: TorchCall) -> bool:
    if call.module is not None:
        value = call.module.arguments.get("log_input", 0)
    else:
        value = call.keyword_values.get("log_input") or (call.values[2] if len(call.values) > 2 else None)
    return value in (None, Constant(True))


def _told(call: TorchCall, ctx: Context) -> Edit | None:
    return with_keyword(ctx, call.module.node if call.module is not None else call.node, "log_input", "False")
