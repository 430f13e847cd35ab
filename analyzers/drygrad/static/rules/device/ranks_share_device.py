"""Rule DG213: ranks that all use the same GPU."""

from __future__ import annotations

from typing import ClassVar

from drygrad.model import Invalid, Rule, Severity, Valid


class RanksShareDevice(Rule):
    """
    ## What it does
    Reports, from a dry run that compares ranks, a collective of NCCL whose tensors are on the same GPU on two ranks,
    though there is one for each.

    ## Why is this bad?
    `"cuda"` is the current device, which is the first one on every rank until somebody chooses another. NCCL refuses
    two ranks on one device ("Duplicate GPU detected"); before that the first GPU is filled by all of them.

    ## Example
    ```python
    dist.init_process_group("nccl")
    model = DDP(Net().to("cuda"))
    ```
    Use instead:
    ```python
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(Net().to("cuda"))
    ```
    """

    code, name, since = "DG213", "ranks-share-device", "0.1"
    severity: ClassVar[Severity] = "error"
    run_only = True
    VALID = [
        Valid(
            """
            import os
            import torch
            import torch.distributed as dist

            dist.init_process_group("nccl")
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            total = torch.ones(2, device="cuda")
            dist.all_reduce(total)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch
            import torch.distributed as dist

            dist.init_process_group("nccl")
            total = torch.ones(2, device="cuda")
            dist.all_reduce(total)
            """
        ),
    ]
