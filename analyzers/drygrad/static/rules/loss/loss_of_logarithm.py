"""Rule DG330: losses that take logarithms and get none, or take none and get some."""

from __future__ import annotations

import ast

from drygrad.model import Fix, Invalid, Valid
from drygrad.static.context import Context
from drygrad.static.editing import as_operand
from drygrad.static.facts.values import Origin, TorchCall
from drygrad.static.rules.loss.asking import Asked, DomainRule, optioned
from drygrad.static.rules.loss.origins import LOGITS

_RATES = frozenset({"softplus", "relu", "exp", "sigmoid", "square", "abs", "elu"})
_RATE = optioned("Pass", "log_input", False)
_MESSAGE = "poisson_nll_loss expects the log of the rate; {what}"


def _log_softmax(ctx: Context, call: TorchCall, given: ast.expr, origin: Origin) -> Fix | None:
    text = f"{as_operand(ctx, given)}.log_softmax(dim=-1)"
    return ctx.fix("Apply `log_softmax`", ctx.replace(given, text)) if origin.operation in LOGITS else None


class LossOfLogarithm(DomainRule):
    """
    ## What it does
    Finds `ctc_loss` on the raw output of a layer or on a `softmax`, and `poisson_nll_loss` with its default
    `log_input=True` on the result of `softplus`, `relu`, `exp` or `sigmoid`.

    ## Why is this bad?
    `ctc_loss` adds up log-probabilities and does not normalize them. With raw scores the model lowers the loss without
    bound by making all scores larger; with probabilities the loss is negative and hardly changes. `poisson_nll_loss`
    expects the logarithm of the rate and exponentiates it: if it gets the rate, the rate that it fits is never below
    one, and overflows for large inputs. Nothing raises.

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
    asked = (
        Asked(
            "ctc_loss", LOGITS | {"softmax"}, "ctc_loss expects log-probabilities; {what}", _log_softmax, "log_probs"
        ),
        Asked("poisson_nll_loss", _RATES, _MESSAGE, _RATE, option=("log_input", True, True), there=False),
    )
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
