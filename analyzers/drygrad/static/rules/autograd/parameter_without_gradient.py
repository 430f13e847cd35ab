"""Rule DG112: parameters that an optimizer steps and that never have a gradient."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class ParameterWithoutGradient(Rule):
    """
    ## What it does
    Reports parameters held by an optimizer that got no gradient before any of its steps, though others did. Only a dry
    run can see this; parameters with `requires_grad=False` are assumed to be frozen on purpose.

    The finding is on the line that cuts the graph (a `detach()`, a `torch.tensor([...])`, a surrounding `no_grad`) if
    what the parameters compute still reaches a loss as a constant; otherwise it is on the step.

    ## Why is this bad?
    The optimizer silently skips parameters without a gradient, so they keep their initial values. Common causes are a
    layer that `forward` never calls, a branch behind `detach()`, or an output that the loss ignores. Some of this is
    intended, such as a head that is trained later, so the finding is an info.

    ## Example
    ```python
    hidden = self.encoder(x).detach()
    return self.head(hidden)
    ```
    Use instead:
    ```python
    hidden = self.encoder(x)
    return self.head(hidden)
    ```

    ## Fix safety
    A dry run tries what keeps the graph: removing the decorator or the `detach` that cuts it. Unsafe: more parameters
    are trained.
    """

    code, name, since = "DG112", "parameter-without-gradient", "0.1"
    severity = "info"
    run_only = True
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
    ]
    INVALID = [
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
