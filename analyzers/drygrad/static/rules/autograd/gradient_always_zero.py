"""Rule DG114: parameters whose gradients are exactly zero at each step."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class GradientAlwaysZero(Rule):
    """
    ## What it does
    Reports parameters whose gradients are exactly zero in every element, over several steps, while those of other
    parameters are not. Only a dry run can see this.

    ## Why is this bad?
    Parameters with zero gradients do not learn. Common causes: all inputs of a ReLU are negative, a softmax or a
    sigmoid is saturated, the output is multiplied by 0, or the gradients underflow in float16. A few steps say little
    about a whole training run, so the finding is a hint.

    ## Example
    ```python
    nn.init.constant_(layer.bias, -100.0)
    hidden = F.relu(layer(x))
    ```
    Use instead:
    ```python
    nn.init.zeros_(layer.bias)
    hidden = F.relu(layer(x))
    ```

    ## Fix safety
    No fix: replacing a step function such as `sign`, or reviving dead units, means changing the model.
    """

    code, name, since = "DG114", "gradient-always-zero", "0.1"
    severity = "hint"
    run_only = True
    VALID = [
        Valid(
            """
            import torch
            import torch.nn as nn

            # dry-run: x=torch.ones(3, 4)
            def train(x):
                model = nn.Sequential(nn.Linear(4, 4), nn.Sigmoid(), nn.Linear(4, 1))
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for _ in range(3):
                    optimizer.zero_grad()
                    model(x).sum().backward()
                    optimizer.step()
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch
            import torch.nn as nn

            # dry-run: x=torch.ones(3, 4)
            def train(x):
                model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
                nn.init.constant_(model[0].bias, -100.0)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for _ in range(3):
                    optimizer.zero_grad()
                    model(x).sum().backward()
                    optimizer.step()
            """,
            at=(12, 8, 12, 24),
        ),
    ]
