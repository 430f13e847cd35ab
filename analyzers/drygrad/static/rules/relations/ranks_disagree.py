"""Rule DG940: a rank of a distributed program on which something fails that does not fail alone."""

from __future__ import annotations

from typing import ClassVar

from drygrad.model import Invalid, Rule, Severity, Valid


class RanksDisagree(Rule):
    """
    ## What it does
    Runs a program that begins a process group once more as several ranks: as many as it is launched with (`--ranks`),
    or as it asks for, else two. They take turns, and their collectives exchange values as they do on the cluster. What
    the ranks do not do alike is told under the rule that recognizes it (DG620, DG621); an error that a rank meets, and
    the program alone does not, under its own.

    ## Why is this bad?
    A program of several ranks is tried with one. What only others do is seen first on the cluster: a folder that rank
    0 makes and rank 1 does not wait for, a source that is no member of the group, a shape that only divides by one.

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
