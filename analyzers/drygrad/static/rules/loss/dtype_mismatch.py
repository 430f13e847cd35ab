"""Rule DG317: tensors of different dtypes where torch takes one, or of a dtype that it does not take."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class DtypeMismatch(Rule):
    """
    ## What it does
    Reports operations that refuse the dtypes of their tensors: float64 data in a float32 layer, indices that are
    floats, the mean of integers. A dry run sees the dtypes; the text mostly does not show them.

    ## Why is this bad?
    It raises when the line is reached. Matrix products, convolutions and recurrent layers do not convert: NumPy data
    is float64 unless it is converted, and images are often uint8.

    ## Example
    ```python
    x = torch.from_numpy(array)
    out = nn.Linear(10, 5)(x)
    ```
    Use instead:
    ```python
    x = torch.from_numpy(array).float()
    out = nn.Linear(10, 5)(x)
    ```

    ## Fix safety
    A dry run proposes and tries conversions, where the tensor is made or where it is used. Safe only where no value
    changes.
    """

    code, name, since = "DG317", "dtype-mismatch", "0.1"
    severity = "error"
    run_only = True
    VALID = [
        Valid(
            """
            import torch
            from torch import nn

            layer = nn.Linear(10, 5)

            # dry-run: x=torch.zeros(8, 10, dtype=torch.float64)
            def apply(x):
                return layer(x.float())
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch
            from torch import nn

            layer = nn.Linear(10, 5)

            # dry-run: x=torch.zeros(8, 10, dtype=torch.float64)
            def apply(x):
                return layer(x)
            """,
            at=(8, 11, 8, 19),
        ),
        Invalid(
            """
            import torch

            # dry-run: counts=torch.tensor([1, 2, 3])
            def average(counts):
                return counts.mean()
            """
        ),
    ]
