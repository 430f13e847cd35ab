"""Rule DG921: what ran on the CPU, and does not on a GPU, or gives something else there."""

from __future__ import annotations

from typing import ClassVar

from drygrad.model import Invalid, Rule, Severity, Valid


class DevicesDiffer(Rule):
    """
    ## What it does
    Runs a target that passed on the CPU again with its tensors and modules on the GPU (simulated if there is none),
    moved the way you would: `module.to("cuda")`, and the tensors among the arguments. If a tensor created by the code
    stays on the CPU and meets the others, the finding has the code of its cause (DG201, DG203, DG204, DG205, DG207); a
    result that is left on the CPU has this code.

    ## Why is this bad?
    Tests, examples and docstrings use small CPU tensors, so all tensors are on one device. On a machine with a GPU the
    first mixed operation raises "Expected all tensors to be on the same device", or the caller's next one does. Tensors
    that the caller could have moved are not reported, nor code that gets a loader or places its tensors itself.

    An object that stores the CPU as its device, as trainers and agents do, is switched to the GPU together with its
    models and optimizers; what it then loads or creates on the CPU is reported as an info. Methods are called several
    times, because a later call may take another branch once state is stored.

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
