"""Rule DG123: a backward of one's own that is not the derivative of its forward."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class BackwardDisagrees(Rule):
    """
    ## What it does
    Reports a custom `torch.autograd.Function` whose backward disagrees with finite differences of its forward, computed
    in float64 along three random directions during a dry run. Functions with steps or random numbers (`round`, `sign`,
    `clamp`, `where`, comparisons), and functions that return their input, are skipped: there a different backward is
    often intended.

    ## Why is this bad?
    Autograd trusts what a backward returns. A missing factor, a product rule with only one of its terms, or gradients
    in the wrong order slow training down or stop it, without an error. `torch.autograd.gradcheck` makes the same
    comparison.

    ## Example
    ```python
    def backward(ctx, grad):
        (s,) = ctx.saved_tensors
        return grad * s * s
    ```
    Use instead:
    ```python
    def backward(ctx, grad):
        (s,) = ctx.saved_tensors
        return grad * s * (1 - s)
    ```

    ## Fix safety
    No fix: only the author knows whether the forward or the backward is wrong.
    """

    code, name, since = "DG123", "backward-disagrees", "0.1"
    severity = "warning"
    run_only = True
    VALID = [
        Valid(
            """
            import torch

            class Square(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    ctx.save_for_backward(x)
                    return x * x

                @staticmethod
                def backward(ctx, grad):
                    (x,) = ctx.saved_tensors
                    return 2 * x * grad

            # dry-run: x=torch.tensor([1.0, 2.0], requires_grad=True)
            def use(x):
                Square.apply(x).sum().backward()
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch

            class Square(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    ctx.save_for_backward(x)
                    return x * x

                @staticmethod
                def backward(ctx, grad):
                    (x,) = ctx.saved_tensors
                    return x * grad

            # dry-run: x=torch.tensor([1.0, 2.0], requires_grad=True)
            def use(x):
                Square.apply(x).sum().backward()
            """,
            at=(12, 15, 12, 23),
        ),
    ]
