"""Rule DG507: more memory than the GPU has."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class OutOfMemory(Rule):
    """
    ## What it does
    Reports runs whose tensors need more memory than is available, or than the GPU named in the settings has. The
    finding is on the line whose tensors hold most of it at the peak. A forecast warns in the editor at the first
    allocation that does not fit.

    ## Why is this bad?
    torch raises `OutOfMemoryError` at whichever allocation comes last, often in the backward pass. What holds the
    memory is elsewhere: activations saved for backward, a batch that is too large, optimizer state.

    ## Example
    ```python
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(queries.size(-1))
    mixed = scores.softmax(dim=-1) @ values
    ```
    Use instead:
    ```python
    mixed = F.scaled_dot_product_attention(queries, keys, values)
    ```

    ## Fix safety
    For pairwise distances, and for data that stays on the device, a dry run tries a version that needs less memory.
    Unsafe: rounding may differ. For a forecast, the fixes are changes of sizes that were traced and fit.

    ## References
    - [Understanding CUDA memory usage](https://docs.pytorch.org/docs/stable/torch_cuda_memory.html)
    """

    code, name, since = "DG507", "out-of-memory", "0.1"
    severity = "error"
    run_only = True
    VALID = [
        Valid(
            """
            import torch

            # dry-run: x=torch.zeros(64, 64)
            def square(x):
                return x @ x
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch

            # dry-run: x=torch.zeros(1 << 22)
            def outer(x):
                return x[:, None] * x
            """
        ),
    ]
