"""Rule DG739: parameters that get gradients at each step, and that no optimizer holds."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class ParametersInNoOptimizer(Rule):
    """
    ## What it does
    Reports module parameters that got a gradient in every step of a dry run but are in none of its optimizers. Modules
    in eval mode, and modules loaded with saved weights, are skipped.

    ## Why is this bad?
    They keep their initial random values. Either the optimizer only got the decoder's parameters and not the encoder's,
    or the loss has parameters of its own (class centers, a temperature, task weights) that were forgotten. The rest of
    the model compensates, so the loss still falls. Use `requires_grad_(False)` for what should not learn; this also
    saves computing its gradients.

    ## Example
    ```python
    optimizer = torch.optim.Adam(decoder.parameters())
    loss = criterion(decoder(encoder(x)), y)
    ```
    Use instead:
    ```python
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()])
    loss = criterion(decoder(encoder(x)), y)
    ```

    ## Fix safety
    No static fix: a run cannot tell whether they are meant to be trained.
    """

    code, name, since = "DG739", "parameters-in-no-optimizer", "0.1"
    severity = "warning"
    run_only = True
    VALID = [
        Valid(
            """
            import torch
            import torch.nn as nn

            # dry-run: x=torch.randn(3, 4)
            def train(x):
                encoder, head = nn.Linear(4, 4).requires_grad_(False), nn.Linear(4, 1)
                optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
                for _ in range(3):
                    optimizer.zero_grad()
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
                optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
                for _ in range(3):
                    optimizer.zero_grad()
                    head(encoder(x)).sum().backward()
                    optimizer.step()
            """,
            at=(7, 16, 7, 58),
        ),
    ]
