"""Rule DG123: a backward of one's own that is not the derivative of its forward."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class BackwardDisagrees(Rule):
    """
    ## What it does
    Reports a `torch.autograd.Function` of the user's whose backward gives another derivative than finite differences of
    its forward do, in float64, along three random directions, in a dry run. Functions with steps or random numbers
    (`round`, `sign`, `clamp`, `where`, comparisons), and those that return their input, are left out: there another
    backward is often the purpose.

    ## Why is this bad?
    Autograd believes what a backward says. A factor that was forgotten, a product rule with one term, or gradients in
    the wrong order let the loss fall more slowly, or not at all, without any error. `torch.autograd.gradcheck` compares
    the same.

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
    No fix: which of the two is wrong, forward or backward, only its author knows.
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
