"""Rule DG818: a file that every rank writes."""

from __future__ import annotations

from typing import ClassVar

from drygrad.model import Invalid, Rule, Severity, Valid


class FileWrittenByEachRank(Rule):
    """
    ## What it does
    Reports, from a dry run that compares ranks, a file that all ranks write as a whole (`torch.save`, or opened with
    `"wb"`) between two of their collectives.

    ## Why is this bad?
    Nothing orders the writes. The file ends up as a mixture, or as the version written last; the checkpoint may be
    unreadable ("failed finding central directory"), and you notice when you need it.

    ## Example
    ```python
    torch.save(model.state_dict(), "last.pt")
    ```
    Use instead:
    ```python
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), "last.pt")
    ```
    """

    code, name, since = "DG818", "file-written-by-each-rank", "0.1"
    severity: ClassVar[Severity] = "warning"
    run_only = True
    VALID = [
        Valid(
            """
            import torch
            import torch.distributed as dist

            dist.init_process_group("gloo")
            if dist.get_rank() == 0:
                torch.save(torch.ones(2), "last.pt")
            torch.save(torch.ones(2), f"shard_{dist.get_rank()}.pt")
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch
            import torch.distributed as dist

            dist.init_process_group("gloo")
            torch.save(torch.ones(2), "last.pt")
            """
        ),
    ]
