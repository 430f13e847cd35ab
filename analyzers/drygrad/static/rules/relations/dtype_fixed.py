"""Rule DG941: what a function makes as float32, whatever the dtype of its inputs is."""

from __future__ import annotations

from typing import ClassVar

from drygrad.model import Invalid, Rule, Severity, Valid


class DtypeFixed(Rule):
    """
    ## What it does
    Runs a target with float32 inputs again in float64, then in float16, with its parameters and buffers in the same
    dtype. It reports a tensor that the target itself creates in float32 if an operation then fails because dtypes
    differ, if float64 numbers are rounded as they are written into it, or if it makes the result of a float16 call
    float32. A number that float16 cannot hold, such as the `-1e9` of a mask, is reported as DG409.

    It is not tried if an input or the module says which dtype to use. Tensors that come with the inputs are not
    reported, nor operations that a device does not support in that dtype.

    ## Why is this bad?
    `torch.zeros(n)` has the default dtype, not that of the tensors it is used with. The code works until someone calls
    `model.half()` or `model.double()`, loads a checkpoint in bfloat16, or runs `gradcheck`.

    ## Example
    ```python
    hidden = torch.zeros(x.shape[0], self.size, device=x.device)
    ```
    Use instead:
    ```python
    hidden = torch.zeros(x.shape[0], self.size, device=x.device, dtype=x.dtype)
    ```
    """

    code, name, since = "DG941", "dtype-fixed", "0.1"
    severity: ClassVar[Severity] = "info"
    run_only = True
    relation = "dtypes follow the inputs"
    VALID = [
        Valid(
            """
            import torch

            # dry-run: x=torch.randn(4, 3)
            def projected(x):
                return x @ torch.eye(3, dtype=x.dtype, device=x.device)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch

            # dry-run: x=torch.randn(4, 3)
            def projected(x):
                return x @ torch.eye(3, device=x.device)
            """,
            at=(5, 15, 5, 44),
        ),
    ]
