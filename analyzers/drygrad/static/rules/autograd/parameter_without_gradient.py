"""Rule DG112: parameters that an optimizer steps and that never have a gradient."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class ParameterWithoutGradient(Rule):
    """
    ## What it does
    Reports parameters that an optimizer holds and that have had no gradient at any of its steps, though others had. A
    dry run sees them; parameters with `requires_grad=False` are meant.

    It stands at the line where the graph of these parameters ends, if what is computed from them flows on into a loss
    as a constant: a `detach()`, a `torch.tensor([...])`, the `no_grad` around it. Else it stands at the step.

    ## Why is this bad?
    The optimizer passes over them: they keep their first values, and nothing tells. A layer that `forward` does not
    call, a branch behind `detach()`, an output that the loss leaves out are the usual reasons. A head that is trained
    later is a good one; so the finding is an info.

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
    A dry run proposes and tries what keeps the graph: without the decorator or the `detach` that ends it. Unsafe: more
    is trained then.
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
