"""Rule DG113: a second backward through one graph."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class BackwardTwice(Rule):
    """
    ## What it does
    Reports a `backward()` through a graph that an earlier `backward()` has freed. Only a dry run can see this. For
    state carried from one iteration of a loop to the next, see DG108.

    If the first loss backpropagated into parameters that its optimizer does not hold, such as a discriminator's loss
    into the generator, the finding is on the tensor that should be detached.

    If the `forward` of a module in training runs a backward itself and returns a tensor of the freed graph, its
    caller's backward fails; this is reported as a warning on the `return`.

    ## Why is this bad?
    It raises `Trying to backward through the graph a second time`: the first backward frees what the operations saved.

    ## Example
    ```python
    loss.backward()
    penalty = regularize(model)
    (loss + penalty).backward()
    ```
    Use instead:
    ```python
    penalty = regularize(model)
    (loss + penalty).backward()
    ```

    ## Fix safety
    A dry run tries a `detach` of the tensor that is carried over, and `retain_graph`. Unsafe: how far gradients should
    flow is your decision.
    """

    code, name, since = "DG113", "backward-twice", "0.1"
    severity = "error"
    run_only = True
    VALID = [
        Valid(
            """
            import torch

            # dry-run: w=torch.ones(3, requires_grad=True)
            def step(w):
                loss = (w * w).sum()
                loss.backward(retain_graph=True)
                loss.backward()
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch

            # dry-run: w=torch.ones(3, requires_grad=True)
            def step(w):
                loss = (w * w).sum()
                loss.backward()
                loss.backward()
            """,
            at=(7, 4, 7, 19),
        ),
    ]
