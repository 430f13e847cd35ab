"""Rule DG942: a view that only some layouts of its input allow."""

from __future__ import annotations

from typing import ClassVar

from drygrad.model import Invalid, Rule, Severity, Valid


class LayoutFixed(Rule):
    """
    ## What it does
    Runs a target again with each image (a float tensor of four dimensions, or of three with 1, 3 or 4 channels first)
    in channels-last memory, as `torch.from_numpy(array).permute(2, 0, 1)` and `memory_format=torch.channels_last`
    give it, and runs backward from its transposed results, whose gradients are not contiguous. It reports a `view` that
    torch refuses then, in the code itself or in the backward of a custom function.

    ## Why is this bad?
    Whether `view` works depends on the strides of a tensor, not on its shape. The code works until someone reads an
    image with NumPy, or transposes the result of a custom function.

    ## Example
    ```python
    pixels = image.view(image.shape[0], -1)
    ```
    Use instead:
    ```python
    pixels = image.reshape(image.shape[0], -1)
    ```
    """

    code, name, since = "DG942", "layout-fixed", "0.1"
    severity: ClassVar[Severity] = "info"
    run_only = True
    relation = "strides do not matter"
    VALID = [
        Valid(
            """
            import torch

            # dry-run: image=torch.rand(2, 3, 8, 8)
            def brightness(image):
                return image.reshape(image.shape[0], -1).mean(1)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch

            # dry-run: image=torch.rand(2, 3, 8, 8)
            def brightness(image):
                return image.view(image.shape[0], -1).mean(1)
            """,
            at=(5, 11, 5, 41),
        ),
    ]
