"""Rule DG122: a sample of a learned distribution that carries no gradient."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Reference
from drygrad.static.rules.loss.activations import rename
from drygrad.static.syntax import called, last_assignment

_REPARAMETRIZED = frozenset(
    "Normal MultivariateNormal LowRankMultivariateNormal LogNormal Laplace Gamma Beta Dirichlet Uniform StudentT "
    "Cauchy Exponential Gumbel Weibull Kumaraswamy RelaxedOneHotCategorical RelaxedBernoulli".split()
)
_DRAWS = frozenset({"sample", "generate", "act", "predict", "get_action", "select_action", "choose_action"})


class SampleWithoutGradient(Rule):
    """
    ## What it does
    Finds `Normal(mu, sigma).sample()`, where layers compute `mu` or `sigma`, in a file that never calls `log_prob`.

    ## Why is this bad?
    `sample()` runs under `no_grad`, so no gradient reaches the layers that computed `mu` and `sigma`. In a variational
    autoencoder the encoder then learns from the KL term alone and ends up ignoring its input. `rsample()` uses the
    reparameterization trick. (With `log_prob`, as in policy gradients, `sample()` is right.)

    ## Example
    ```python
    encoder = nn.Linear(8, 4)
    mu, log_sigma = encoder(x).chunk(2, dim=-1)
    z = torch.distributions.Normal(mu, log_sigma.exp()).sample()
    ```
    Use instead:
    ```python
    encoder = nn.Linear(8, 4)
    mu, log_sigma = encoder(x).chunk(2, dim=-1)
    z = torch.distributions.Normal(mu, log_sigma.exp()).rsample()
    ```

    ## Fix safety
    Unsafe: it changes the gradients.
    """

    code, name, since = "DG122", "sample-without-gradient", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            from torch.distributions import Categorical, Normal

            def act(policy: nn.Linear, x):
                dist = Normal(policy(x), 1.0)
                action = dist.sample()
                return action, dist.log_prob(action)
            """
        ),
        Valid(
            """
            from torch.distributions import Categorical, Normal

            def f(net: nn.Linear, x):
                prior = Normal(torch.zeros(3), torch.ones(3)).sample()
                token = Categorical(logits=net(x)).sample()
                with torch.no_grad():
                    z = Normal(net(x), 1.0).sample()
                return Normal(net(x), 1.0).rsample(), prior, token, z
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            from torch.distributions import Normal

            class VAE(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.enc, self.dec = nn.Linear(8, 4), nn.Linear(2, 8)

                def forward(self, x):
                    mu, log_var = self.enc(x).chunk(2, dim=-1)
                    q = Normal(mu, (0.5 * log_var).exp())
                    return self.dec(q.sample()), mu, log_var
            """,
            """
            from torch.distributions import Normal

            class VAE(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.enc, self.dec = nn.Linear(8, 4), nn.Linear(2, 8)

                def forward(self, x):
                    mu, log_var = self.enc(x).chunk(2, dim=-1)
                    q = Normal(mu, (0.5 * log_var).exp())
                    return self.dec(q.rsample()), mu, log_var
            """,
            at=(11, 24, 11, 34),
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr="sample")):
                made = last_assignment(ctx, owner.id, ctx.statement(node)) if isinstance(owner, ast.Name) else owner
            case _:
                return
        if not isinstance(made, ast.Call) or not _is_reparametrized(made, ctx):
            return
        function = ctx.function(node)
        if ctx.grad_enabled(ctx.statement(node)) is not True or (function is not None and function.name in _DRAWS):
            return
        given = [*made.args, *(keyword.value for keyword in made.keywords)]
        learned = [value for value in given if (t := ctx.tensor(value)) is not None and t.requires_grad]
        if not learned or any(called(call) == "log_prob" for call in ctx.nodes(ast.Call)):
            return
        message = "sample() is not differentiable; nothing upstream of the distribution is trained"
        related = [("the distribution is created here", made)] if made is not owner else []
        fix = ctx.fix("Use `rsample()`", rename(ctx, node, "rsample"))
        yield ctx.finding(self, node, message, related=related, fixes=[fix])


def _is_reparametrized(made: ast.Call, ctx: Context) -> bool:
    value = ctx.value(made.func)
    name = value.name if isinstance(value, Reference) else ""
    return name.startswith("torch.distributions.") and name.rpartition(".")[2] in _REPARAMETRIZED
