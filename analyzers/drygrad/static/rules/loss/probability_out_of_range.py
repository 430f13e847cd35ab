"""Rule DG316: a probability that is negative, above one, or NaN."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class ProbabilityOutOfRange(Rule):
    """
    ## What it does
    Reports values that `torch.bernoulli`, `torch.multinomial` and distributions based on them reject as probabilities,
    and NaN in the input of `binary_cross_entropy`. Only a dry run can see these.

    ## Why is this bad?
    On the CPU it raises. On CUDA a kernel fails with "device-side assert triggered", reported later and elsewhere, and
    the process cannot use CUDA afterwards. The dry run names the value and its position before the kernel starts.

    ## Example
    ```python
    weights = scores - scores.mean()
    picked = torch.multinomial(weights, 1)
    ```
    Use instead:
    ```python
    weights = scores.softmax(dim=-1)
    picked = torch.multinomial(weights, 1)
    ```

    ## Fix safety
    No fix: whether a sigmoid, a softmax or a clamp is missing depends on what the values mean.
    """

    code, name, since = "DG316", "probability-out-of-range", "0.1"
    severity = "error"
    run_only = True
    VALID = [
        Valid(
            """
            import torch

            # dry-run: scores=torch.tensor([-1.0, 2.0])
            def draw(scores):
                return torch.multinomial(scores.softmax(dim=-1), 1)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch

            # dry-run: scores=torch.tensor([-1.0, 2.0])
            def draw(scores):
                return torch.multinomial(scores, 1)
            """,
            at=(5, 11, 5, 39),
        ),
        Invalid(
            """
            import torch

            # dry-run: x=torch.ones(3), keep=torch.tensor([0.5, 1.5, 1.0])
            def drop(x, keep):
                return x * torch.bernoulli(keep)
            """
        ),
    ]
