"""Rule DG410: NaN or infinity that an operation makes of finite values."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class NonFiniteBorn(Rule):
    """
    ## What it does
    Reports the operation, forward or backward, that makes NaN or infinity out of finite values, where these reach a
    loss, a gradient, what the function returns, or what it leaves behind: an attribute, a buffer, a parameter, a list
    of the caller's, the averages of an optimizer. A dry run sees them; divisions, logarithms and roots at zero have
    codes of their own.

    ## Why is this bad?
    torch raises nothing. NaN passes through all that follows: the loss, each gradient, each weight in the next step.
    It is noticed where it ends up, which says little about where it began: a softmax over a row that is masked
    throughout, the deviation of a single value, a mean of nothing, `acos` at 1, a batch that held NaN already.

    A `-inf` that is meant, such as a mask before a softmax, is not reported, nor anything that never gets to a result.
    Where NaN is made of an infinity that the program has written, the report stands where that is written.

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
    A dry run proposes and tries a limit, or a small number, at the operation itself. Unsafe unless only rows that are
    masked throughout change.
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
