"""Rule DG738: an optimizer none of whose parameters ever has a gradient."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class OptimizerWithoutGradients(Rule):
    """
    ## What it does
    Reports an optimizer none of whose parameters had a gradient at any of its steps in a dry run, though backward ran
    before each of them.

    It stands where what is computed from the parameters leaves the graph (a `detach()`, the `no_grad` around it), if
    they are used at all; else where the optimizer is made.

    ## Why is this bad?
    The steps do nothing, and nothing says so. The model was made again after the optimizer had taken its parameters
    (`model = copy.deepcopy(model)`), the optimizer holds those of another instance, or the loss was computed from a
    detached output, as when the generator's loss takes the images that were detached for the discriminator.

    ## Example
    ```python
    optimizer = torch.optim.Adam(model.parameters())
    model = copy.deepcopy(model)
    ```
    Use instead:
    ```python
    model = copy.deepcopy(model)
    optimizer = torch.optim.Adam(model.parameters())
    ```

    ## Fix safety
    No fix: whether the optimizer holds the wrong parameters, or the loss is of the wrong model, a run cannot tell.
    """

    code, name, since = "DG738", "optimizer-without-gradients", "0.1"
    severity = "warning"
    run_only = True
    VALID = [
        Valid(
            """
            import torch
            import torch.nn as nn

            # dry-run: x=torch.randn(3, 4)
            def train(x):
                model = nn.Linear(4, 1)
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
            import copy
            import torch
            import torch.nn as nn

            # dry-run: x=torch.randn(3, 4)
            def train(x):
                model = nn.Linear(4, 1)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                model = copy.deepcopy(model)
                for _ in range(3):
                    optimizer.zero_grad()
                    model(x).sum().backward()
                    optimizer.step()
            """,
            at=(8, 16, 8, 59),
        ),
    ]
