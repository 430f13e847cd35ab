"""Rule DG921: what ran on the CPU, and does not on a GPU, or gives something else there."""

from __future__ import annotations

from typing import ClassVar

from drygrad.model import Invalid, Rule, Severity, Valid


class DevicesDiffer(Rule):
    """
    ## What it does
    Runs a target that passed on the CPU once more with its tensors and modules on the GPU (a simulated one where there
    is none), moved as a user would: `module.to("cuda")`, and the tensors among the arguments. It says where a tensor
    that the code itself has made stays on the CPU and meets the others, under the rule that recognizes the cause
    (DG201, DG203, DG204, DG205, DG207), and, under its own code, a result that is left on the CPU.

    ## Why is this bad?
    Tests, examples and docstrings use small tensors on the CPU, where every operation finds its operands. On the
    machine with the GPU the first operation on both raises "Expected all tensors to be on the same device", or the
    caller's next one does. What the caller could have moved is not reported, nor code that is given a loader or places
    its tensors itself.

    An object that keeps the CPU as its device, as trainers and agents do, is told the GPU with the models and
    optimizers that it holds: what it then fetches or makes on the CPU is reported as an info. Methods are called
    several times, since what an object keeps of earlier calls may take it elsewhere.

    ## Example
    ```python
    def masked_mean(x, lengths):
        mask = torch.zeros(x.shape[:2])
        for row, length in enumerate(lengths):
            mask[row, :length] = 1
        return mask
    ```
    Use instead:
    ```python
    def masked_mean(x, lengths):
        mask = torch.zeros(x.shape[:2], device=x.device)
        for row, length in enumerate(lengths):
            mask[row, :length] = 1
        return mask
    ```
    """

    code, name, since = "DG921", "devices-differ", "0.1"
    severity: ClassVar[Severity] = "info"
    run_only = True
    relation = "devices are equal"
    VALID = [
        Valid(
            """
            import torch

            # dry-run: x=torch.randn(2, 5, 3), lengths=[5, 2]
            def mask_of(x, lengths):
                mask = torch.zeros(x.shape[:2], device=x.device)
                for row, length in enumerate(lengths):
                    mask[row, :length] = 1
                return mask
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch

            # dry-run: x=torch.randn(2, 5, 3), lengths=[5, 2]
            def mask_of(x, lengths):
                mask = torch.zeros(x.shape[:2])
                for row, length in enumerate(lengths):
                    mask[row, :length] = 1
                return mask
            """
        ),
    ]
