"""Rule DG322: probabilities where a distribution wants logits."""

from __future__ import annotations

import ast

from drygrad.model import Fix, Invalid, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Origin, TorchCall
from drygrad.static.rules.loss.asking import Asked, DomainRule

_OF_CLASSES = "gumbel_softmax Categorical OneHotCategorical Multinomial"
_OF_LABELS = "Bernoulli ContinuousBernoulli Binomial"
_MESSAGE = "{made} was already applied; these are probabilities, not logits, and the result is nearly uniform"


def _as_probabilities(ctx: Context, call: TorchCall, given: ast.expr, origin: Origin) -> Fix | None:
    """Give them as what they are, where the distribution takes probabilities, too."""
    keyword = next((k for k in call.node.keywords if k.arg == "logits"), None)
    if keyword is None or call.operation == "gumbel_softmax":
        return None
    return ctx.fix("Pass them as `probs`", ctx.replace(keyword, f"probs={ctx.source_of(given)}"))


class ProbabilitiesAsLogits(DomainRule):
    """
    ## What it does
    Finds the result of `softmax` or `sigmoid` passed as `logits=` to a distribution, or to `gumbel_softmax`.

    ## Why is this bad?
    The distribution applies softmax (or sigmoid) itself. Probabilities lie between 0 and 1, so a second softmax makes
    them nearly equal: of two actions with 99% and 1%, the second is drawn in 27% of cases. Nothing raises; the agent
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
    asked = (
        Asked(_OF_CLASSES, frozenset({"softmax"}), _MESSAGE, _as_probabilities, "logits", there=False),
        Asked(_OF_LABELS, frozenset({"sigmoid"}), _MESSAGE, _as_probabilities, "logits", there=False),
    )
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
