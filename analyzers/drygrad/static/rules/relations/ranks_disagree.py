"""Rule DG940: a rank of a distributed program on which something fails that does not fail alone."""

from __future__ import annotations

from typing import ClassVar

from drygrad.model import Invalid, Rule, Severity, Valid


class RanksDisagree(Rule):
    """
    ## What it does
    Takes a program that creates a process group and runs it again as several ranks: as many as it is launched with
    (`--ranks`), as many as it asks for, or two. The ranks take turns, and their collectives exchange values as on a
    cluster. Where ranks diverge, the finding has the code of its rule (DG620, DG621); an error that only occurs on one
    of several ranks has its own code.

    ## Why is this bad?
    Programs for several ranks are usually tried with one. What only the other ranks do then fails on the cluster: a
    folder that rank 0 creates and rank 1 does not wait for, a source rank outside the group, a size that two ranks
    cannot share evenly.

    ## Example
    ```python
    if rank == 0:
        os.makedirs(folder, exist_ok=True)
    torch.save(shard, f"{folder}/{rank}.pt")
    ```
    Use instead:
    ```python
    os.makedirs(folder, exist_ok=True)
    torch.save(shard, f"{folder}/{rank}.pt")
    ```
    """

    code, name, since = "DG940", "ranks-disagree", "0.1"
    severity: ClassVar[Severity] = "error"
    run_only = True
    relation = "ranks agree"
    VALID = [
        Valid(
            """
            import torch
            import torch.distributed as dist

            dist.init_process_group("gloo")
            last = dist.get_world_size() - 1
            group = dist.new_group([last])
            if dist.get_rank() == last:
                dist.broadcast(torch.ones(2), src=last, group=group)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch
            import torch.distributed as dist

            dist.init_process_group("gloo")
            last = dist.get_world_size() - 1
            group = dist.new_group([last])
            if dist.get_rank() == last:
                dist.broadcast(torch.ones(2), src=0, group=group)
            """
        ),
    ]
