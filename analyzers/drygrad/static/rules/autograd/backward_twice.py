"""Rule DG113: a second backward through one graph."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class BackwardTwice(Rule):
    """
    ## What it does
    Reports a `backward()` that goes through the graph of the same loss again, after the first has freed it. A dry run
    sees it. What is carried from pass to pass of a loop is DG108.

    Where the first loss went back into parameters that its optimizer does not hold, as a discriminator's loss into the
    generator, the finding stands where that loss takes the tensor that should be detached.

    Where the `forward` of a module that is being trained runs a backward pass itself, and what it returns belongs to
    the graph that this has freed, a backward by its caller fails: that is a warning at the `return`.

    ## Why is this bad?
    It raises: `Trying to backward through the graph a second time`. The first pass frees what the operations keep.

    ## Example
    ```python
    loss.backward()
    penalty = regularise(model)
    (loss + penalty).backward()
    ```
    Use instead:
    ```python
    penalty = regularise(model)
    (loss + penalty).backward()
    ```

    ## Fix safety
    A dry run proposes and tries a `detach` of what is carried on, and `retain_graph`. Unsafe: which of them is meant
    decides how far gradients go back.
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
