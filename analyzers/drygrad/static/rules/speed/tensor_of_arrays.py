"""Rule DG609: a tensor made of a list of NumPy arrays."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class TensorOfArrays(Rule):
    """
    ## What it does
    Reports `torch.tensor(...)` of a list of NumPy arrays.

    ## Why is this bad?
    Each number is turned into a Python object and back: a batch of images takes seconds where `np.stack` and
    `torch.from_numpy` take milliseconds. Torch warns once, in the middle of everything else that is printed.

    ## Example
    ```python
    batch = torch.tensor([frame for frame in frames])
    ```
    Use instead:
    ```python
    batch = torch.from_numpy(np.stack(frames))
    ```
    """

    code, name, since = "DG609", "tensor-of-arrays", "0.1"
    severity = "warning"
    run_only = True
    VALID = [
        Valid(
            """
            import numpy as np
            import torch

            # dry-run: n=4
            def batch(n):
                return torch.from_numpy(np.stack([np.zeros(8, dtype=np.float32) for _ in range(n)]))
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import numpy as np
            import torch

            # dry-run: n=4
            def batch(n):
                frames = [np.zeros(8, dtype=np.float32) for _ in range(n)]
                return torch.tensor(frames)
            """,
            at=(7, 11, 7, 31),
        ),
    ]
