"""Rule DG621: a collective that ranks call with operands that do not go together."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class CollectiveOperandsDiffer(Rule):
    """
    ## What it does
    Reports, from a dry run that compares ranks, a collective that the ranks call with incompatible operands: different
    sizes, dtypes, reductions or source ranks.

    ## Why is this bad?
    NCCL checks nothing: it hangs, or leaves part of the result uninitialized. Gloo raises an error about sizes in
    bytes. One rank that selects nothing, or gets the shorter last batch, is enough.

    ## Example
    ```python
    kept = scores[scores > 0.5]
    parts = [torch.empty_like(kept) for _ in range(world)]
    dist.all_gather(parts, kept)
    ```
    Use instead:
    ```python
    kept = scores[scores > 0.5]
    parts = [None] * world
    dist.all_gather_object(parts, kept)
    ```
    """

    code, name, since = "DG621", "collective-operands-differ", "0.1"
    severity = "error"
    run_only = True
    VALID = [
        Valid(
            """
            import torch
            import torch.distributed as dist

            dist.init_process_group("gloo")
            kept = torch.arange(dist.get_rank() + 1)
            parts = [None] * dist.get_world_size()
            dist.all_gather_object(parts, kept)
            assert [len(part) for part in parts] == [*range(1, dist.get_world_size() + 1)]
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch
            import torch.distributed as dist

            dist.init_process_group("gloo")
            kept = torch.arange(dist.get_rank() + 1)
            parts = [torch.empty_like(kept) for _ in range(dist.get_world_size())]
            dist.all_gather(parts, kept)
            """
        ),
    ]
