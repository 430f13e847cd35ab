"""Rule DG902: a dry run that did not end in its time."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class Deadline(Rule):
    """
    ## What it does
    Says where a dry run was when it reached its time limit: the line, and the operation if one was running.

    ## Why is this bad?
    This is not necessarily a fault: the run may just be slow, and a longer `--timeout` lets it finish. But an endless
    loop ends here too. Loops over batches are stopped early and are rarely the cause, and neither are imports: they
    have a minute of their own, which does not count toward the limit.

    ## Example
    ```python
    def fit(loss, tolerance):
        while loss > tolerance:
            rate = 0.1
    ```
    Use instead:
    ```python
    def fit(loss, tolerance):
        for _ in range(1000):
            if loss <= tolerance:
                break
    ```
    """

    code, name, since = "DG902", "deadline", "0.1"
    run_only = True
    VALID = [
        Valid(
            """
            import torch

            # dry-run: x=torch.ones(3)
            def shrink(x):
                while x.sum() > 1:
                    x = x / 2
                return x
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch

            # dry-run: x=torch.ones(3)
            def shrink(x):
                while x.sum() > 1:
                    y = x / 2
                return x
            """
        ),
    ]
