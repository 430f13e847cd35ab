"""Rule DG213: ranks that all use the same GPU."""

from __future__ import annotations

from typing import ClassVar

from drygrad.model import Invalid, Rule, Severity, Valid


class RanksShareDevice(Rule):
    """
    ## What it does
    Reports, from a dry run that compares ranks, an NCCL collective whose tensors are on the same GPU on two ranks,
    although each rank has a GPU.

    ## Why is this bad?
    `"cuda"` is the current device: the first GPU on every rank, unless the program selects another. NCCL refuses two
    ranks on one device ("Duplicate GPU detected"), and until then all ranks fill the memory of the first GPU.

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
