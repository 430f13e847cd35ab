"""Rule DG777: a loader that gives all ranks the same batches."""

from __future__ import annotations

from typing import ClassVar

from drygrad.model import Invalid, Rule, Severity, Valid


class SameBatchesOnRanks(Rule):
    """
    ## What it does
    Reports, from a dry run that compares ranks, a `DataLoader` that returns the same batches on all ranks while
    `DistributedDataParallel` averages their gradients.

    ## Why is this bad?
    Equal batches have equal gradients, so averaging changes nothing: eight GPUs do the work of one, eight times. The
    loss falls, an epoch takes as long as on one GPU, and nothing raises. The cause is a loader that does not split the
    data, with the same seed on all ranks.

    ## Example
    ```python
    torch.manual_seed(0)
    loader = DataLoader(dataset, batch_size=32, shuffle=True)
    ```
    Use instead:
    ```python
    torch.manual_seed(0)
    loader = DataLoader(dataset, batch_size=32, sampler=DistributedSampler(dataset))
    ```
    """

    code, name, since = "DG777", "same-batches-on-ranks", "0.1"
    severity: ClassVar[Severity] = "warning"
    run_only = True
    VALID = [
        Valid(
            """
            import torch
            import torch.distributed as dist
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

            dist.init_process_group("gloo")
            data = TensorDataset(torch.arange(32.0).view(16, 2))
            loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data))
            model = DistributedDataParallel(torch.nn.Linear(2, 1))
            optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
            for (x,) in loader:
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch
            import torch.distributed as dist
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader, TensorDataset

            dist.init_process_group("gloo")
            data = TensorDataset(torch.arange(32.0).view(16, 2))
            loader = DataLoader(data, batch_size=4)
            model = DistributedDataParallel(torch.nn.Linear(2, 1))
            optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
            for (x,) in loader:
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
            """
        ),
    ]
