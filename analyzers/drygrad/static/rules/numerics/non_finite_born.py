"""Rule DG410: NaN or infinity that an operation makes of finite values."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class NonFiniteBorn(Rule):
    """
    ## What it does
    Reports the operation, forward or backward, that turns finite values into NaN or infinity, if these reach a loss, a
    gradient, the return value, or something that outlives the call: an attribute, a buffer, a parameter, a caller's
    list, the state of an optimizer. Only a dry run can see this; divisions, logarithms and roots at zero have their own
    codes.

    ## Why is this bad?
    torch raises nothing. NaN spreads to everything computed from it: the loss, every gradient, every weight in the next
    step. Where it is noticed says little about where it began: a softmax over a fully masked row, the standard
    deviation of a single value, the mean of an empty tensor, `acos` at 1, NaN in the data.

    An intended `-inf`, such as a mask before a softmax, is not reported, nor is anything that never reaches a result.
    If NaN comes from an infinity written by the program, the finding is on that line.

    ## Example
    ```python
    scores = scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(dim=-1)
    ```
    Use instead:
    ```python
    mask = mask | ~mask.any(dim=-1, keepdim=True)
    scores = scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(dim=-1)
    ```

    ## Fix safety
    A dry run tries a clamp, or a small number, at the operation itself. Unsafe unless only fully masked rows change.
    """

    code, name, since = "DG410", "non-finite-born", "0.1"
    severity = "error"
    run_only = True
    VALID = [
        Valid(
            """
            import torch

            # dry-run: scores=torch.randn(2, 3, requires_grad=True), mask=torch.tensor([[True, True, False]] * 2)
            def attend(scores, mask):
                weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
                weights.square().sum().backward()
            """
        ),
        Valid(
            """
            import torch

            # dry-run: p=torch.tensor([0.0, 0.5, 0.5]), x=torch.randn(3, requires_grad=True)
            def energy(p, x):
                torch.logsumexp(p.log() + x, dim=0).backward()
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch

            # dry-run: scores=torch.randn(2, 3, requires_grad=True), mask=torch.tensor([[True] * 3, [False] * 3])
            def attend(scores, mask):
                weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
                weights.square().sum().backward()
            """,
            at=(5, 14, 5, 67),
        ),
        Invalid(
            """
            import torch

            # dry-run: cosine=torch.tensor([1.0, 0.5], requires_grad=True)
            def angle(cosine):
                torch.acos(cosine).sum().backward()
            """
        ),
    ]
