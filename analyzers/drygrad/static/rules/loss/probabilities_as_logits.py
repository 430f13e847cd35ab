"""Rule DG322: probabilities where a distribution wants logits."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.operations import VIEWS
from drygrad.static.facts.values import Tensor
from drygrad.static.syntax import argument

_DISTRIBUTIONS = {
    "Categorical": "softmax",
    "OneHotCategorical": "softmax",
    "Multinomial": "softmax",
    "Bernoulli": "sigmoid",
    "ContinuousBernoulli": "sigmoid",
    "Binomial": "sigmoid",
}


class ProbabilitiesAsLogits(Rule):
    """
    ## What it does
    Finds the result of `softmax` or `sigmoid` passed as `logits=` to a distribution, or to `gumbel_softmax`.

    ## Why is this bad?
    The distribution applies softmax (or sigmoid) itself. Probabilities lie between 0 and 1, so a second softmax makes
    them nearly equal: of two actions with 99% and 1% it draws the second in 27% of cases. Nothing raises; the agent
    stays close to random, however well it learns.

    ## Example
    ```python
    policy = Categorical(logits=F.softmax(self.actor(state), dim=-1))
    ```
    Use instead:
    ```python
    policy = Categorical(logits=self.actor(state))
    ```

    ## Fix safety
    Unsafe: it changes the distribution.
    """

    code, name, since = "DG322", "probabilities-as-logits", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            from torch.distributions import Bernoulli, Categorical

            def act(scores: torch.Tensor):
                p = scores.softmax(dim=-1)
                return Categorical(p), Categorical(probs=p), Categorical(logits=scores.log_softmax(-1)), Bernoulli(p)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            from torch.distributions import Categorical

            class Policy(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.actor = nn.Sequential(nn.Linear(4, 2), nn.Softmax(dim=-1))

                def forward(self, state):
                    return Categorical(logits=self.actor(state))
            """,
            """
            from torch.distributions import Categorical

            class Policy(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.actor = nn.Sequential(nn.Linear(4, 2), nn.Softmax(dim=-1))

                def forward(self, state):
                    return Categorical(probs=self.actor(state))
            """,
            at=(9, 34, 9, 51),
        ),
        Invalid(
            "def choose(scores: torch.Tensor):\n    p = scores.softmax(-1)\n    return F.gumbel_softmax(p, hard=True)",
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        name = ctx.name(node.func) or ""
        if name == "torch.nn.functional.gumbel_softmax":
            given, applied = argument(node, "logits", 0), "softmax"
        elif name.startswith("torch.distributions."):
            given, applied = argument(node, "logits"), _DISTRIBUTIONS.get(name.rpartition(".")[2], "")
        else:
            return
        activation = _activation(ctx.tensor(given), applied) if applied else None
        if given is None or activation is None:
            return
        message = (
            f"{applied} was already applied; these are probabilities, not logits, and the result is nearly uniform"
        )
        related = [(f"{applied} is applied here", activation)] if activation is not given else []
        yield ctx.finding(self, given, message, related=related, fixes=[_as_probabilities(node, ctx)])


def _activation(tensor: Tensor | None, operation: str) -> ast.expr | None:
    """Return where an activation was applied to a tensor that was only laid out anew since."""
    origin = tensor.origin if tensor is not None else None
    while origin is not None and origin.operation in VIEWS and origin.operands:
        inner = origin.operands[0]
        origin = inner.origin if isinstance(inner, Tensor) else None
    return origin.node if origin is not None and origin.operation == operation else None


def _as_probabilities(node: ast.Call, ctx: Context) -> Fix | None:
    """Give them as what they are, where the distribution takes probabilities, too."""
    keyword = next((k for k in node.keywords if k.arg == "logits"), None)
    if keyword is None or (ctx.name(node.func) or "").endswith("gumbel_softmax"):
        return None
    return ctx.fix("Pass them as `probs`", ctx.replace(keyword, f"probs={ctx.source_of(keyword.value)}"))
