"""Rule DG112: parameters that an optimizer steps and that never have a gradient."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.rules.autograd.ends import ends_of_training


class ParameterWithoutGradient(Rule):
    """
    ## What it does
    Finds layers held by an optimizer whose results reach the losses of the file only past an end of the graph: a
    `detach()`, a `torch.tensor([...])`, an array, a Python number, indices, a surrounding `no_grad`, a new
    `nn.Parameter`. It is reported on the line that cuts the graph: a warning, or an info where `detach` or `no_grad`
    says that this may be meant. Files that freeze parameters are left out.

    A dry run reports parameters that got no gradient before any step of their optimizer, though others did. Without a
    cut, it reports them on the step. Parameters with `requires_grad=False` are assumed to be frozen on purpose.

    ## Why is this bad?
    The optimizer silently skips parameters without a gradient, so they keep their initial values. Common causes are a
    layer that `forward` never calls, a branch behind `detach()`, or an output that the loss ignores. Some of this is
    intended, such as a head that is trained later.

    ## Example
    ```python
    encoder, head = nn.Linear(4, 8), nn.Linear(8, 3)
    optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()])
    logits = head(encoder(torch.randn(2, 4)).detach())
    F.cross_entropy(logits, torch.tensor([0, 2])).backward()
    optimizer.step()
    ```
    Use instead:
    ```python
    encoder, head = nn.Linear(4, 8), nn.Linear(8, 3)
    optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()])
    logits = head(encoder(torch.randn(2, 4)))
    F.cross_entropy(logits, torch.tensor([0, 2])).backward()
    optimizer.step()
    ```

    ## Fix safety
    A dry run tries what keeps the graph: removing the decorator or the `detach` that cuts it. Unsafe: more parameters
    are trained.
    """

    code, name, since = "DG112", "parameter-without-gradient", "0.1"
    severity = "info"
    VALID = [
        Valid(
            """
            import torch
            import torch.nn as nn

            # dry-run: x=torch.randn(3, 4)
            def train(x):
                encoder, head = nn.Linear(4, 4).requires_grad_(False), nn.Linear(4, 1)
                optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
                head(encoder(x)).sum().backward()
                optimizer.step()
            """
        ),
        Valid(  # what one loss cuts off, another one trains
            """
            generator, critic = nn.Linear(4, 8), nn.Linear(8, 1)
            optimizers = [torch.optim.Adam(m.parameters()) for m in (generator, critic)]
            train_g, train_d = torch.optim.Adam(generator.parameters()), torch.optim.Adam(critic.parameters())
            for real in loader:
                fake = generator(torch.randn(16, 4))
                train_d.zero_grad()
                (critic(fake.detach()).mean() - critic(real).mean()).backward()
                train_d.step()
                train_g.zero_grad()
                (-critic(fake).mean()).backward()
                train_g.step()
            """
        ),
        Valid(  # the gradient goes around the indices
            """
            encoder, decoder, codes = nn.Linear(4, 8), nn.Linear(8, 4), nn.Embedding(16, 8)
            modules = nn.ModuleList([encoder, decoder, codes])
            optimizer = torch.optim.Adam(modules.parameters())
            for x in torch.randn(5, 16, 4):
                z = encoder(x)
                chosen = codes(torch.cdist(z, codes.weight).argmin(1))
                through = z + (chosen - z).detach()
                loss = F.mse_loss(decoder(through), x) + F.mse_loss(chosen, z.detach())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """
        ),
        Valid(  # nobody knows what else the loss reads
            """
            encoder, head = nn.Linear(4, 8), nn.Linear(8, 3)
            optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()])
            for x, y in loader:
                features = encoder(x)
                loss = F.cross_entropy(head(features.detach()), y) + regularizer(features)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """
        ),
    ]
    INVALID = [
        Invalid(  # the switch is in a caller
            """
            text, image = nn.Linear(8, 4), nn.Linear(6, 4)
            optimizer = torch.optim.Adam([*text.parameters(), *image.parameters()])

            def encode(x):
                return torch.tanh(text(x))

            def embed(x):
                torch.set_grad_enabled(False)
                z = encode(x)
                torch.set_grad_enabled(True)
                return z

            for _ in range(3):
                loss = (embed(torch.randn(2, 8)) - image(torch.randn(2, 6))).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            at=(8, 4, 8, 33),
        ),
        Invalid(  # through a helper, an attribute and a branch
            """
            class Selector(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.score = nn.Linear(4, 1)
                    self.head = nn.Linear(4, 2)

                def weights(self, x):
                    return torch.from_numpy(np.exp(self.score(x).detach().numpy()))

                def forward(self, x, plain=False):
                    if not plain:
                        x = x * self.weights(x)
                    return self.head(x)

            model = Selector()
            optimizer = torch.optim.Adam(model.parameters())
            F.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,))).backward()
            optimizer.step()
            """,
            at=(8, 39, 8, 69),
            severity="warning",
        ),
        Invalid(
            """
            first, second = nn.Linear(4, 10), nn.Embedding(10, 3)
            optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()])
            for _ in range(3):
                tokens = first(torch.randn(8, 4)).max(1)[1]
                loss = F.cross_entropy(second(tokens), torch.randint(0, 3, (8,)))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            at=(4, 13, 4, 44),
            severity="warning",
        ),
        Invalid(
            """
            import torch
            import torch.nn as nn

            # dry-run: x=torch.randn(3, 4)
            def train(x):
                encoder, head = nn.Linear(4, 4), nn.Linear(4, 1)
                optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
                head(encoder(x).detach()).sum().backward()
                optimizer.step()
            """,
            at=(8, 9, 8, 28),
        ),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        for end in ctx.derived(ends_of_training):
            if end.code == self.code:
                yield end.finding(self, ctx)
