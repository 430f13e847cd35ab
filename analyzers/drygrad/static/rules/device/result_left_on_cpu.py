"""Rule DG214: a result that is on the CPU wherever the arguments are."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.rules.device.apart import left_behind, repaired


class ResultLeftOnCpu(Rule):
    """
    ## What it does
    Finds functions and methods that are given tensors but return a tensor that they created without `device=`, with
    `torch.zeros`, `torch.empty`, `torch.randn` and the like: filled later, or returned as it is.

    ## Why is this bad?
    Slices of a GPU tensor can be written into a CPU tensor, so nothing fails here. Each write copies from the GPU and
    waits for it, and the caller gets a CPU tensor for GPU inputs: its next operation raises "Expected all tensors to be
    on the same device". Datasets, loaders, plots and other functions that work on the CPU by design are skipped, and so
    are indices, which may stay on the CPU.

    ## Example
    ```python
    def padded(sequences: list[torch.Tensor], length: int) -> torch.Tensor:
        result = torch.zeros(len(sequences), length)
        for row, sequence in zip(result, sequences):
            row[: len(sequence)] = sequence
        return result
    ```
    Use instead:
    ```python
    def padded(sequences: list[torch.Tensor], length: int) -> torch.Tensor:
        result = torch.zeros(len(sequences), length, device=sequences[0].device)
        for row, sequence in zip(result, sequences):
            row[: len(sequence)] = sequence
        return result
    ```

    ## Fix safety
    Safe: if the arguments are on the CPU, the result is the same.
    """

    code, name, since = "DG214", "result-left-on-cpu", "0.1"
    severity = "info"
    VALID = [
        Valid(
            """
            def windows(x: torch.Tensor, size: int):
                result = torch.zeros(x.size(0), size, device=x.device)
                result[:, : x.size(1)] = x
                return result
            """
        ),
        Valid(
            """
            def windows(x: torch.Tensor, size: int):
                result = torch.zeros(x.size(0), size)
                result[:, : x.size(1)] = x
                return result.to(x.device)
            """
        ),
        Valid("def start(batch: int, width: int):\n    return torch.zeros(batch, width)"),
        Valid("def some(x: torch.Tensor, count: int):\n    return torch.randperm(x.size(0))[:count]"),
        Valid(
            """
            class Frames(torch.utils.data.Dataset):
                def cut(self, x: torch.Tensor):
                    result = torch.zeros(x.size(0), 16)
                    result[:, :8] = x[:, :8]
                    return result
            """
        ),
        Valid(
            """
            def histogram(x: torch.Tensor):
                counts = torch.zeros(256)
                for value in x.cpu().numpy().ravel():
                    counts[value] += 1
                return counts
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            def windows(x: torch.Tensor, size: int):
                result = torch.zeros(x.size(0), size)
                result[:, : x.size(1)] = x
                return result
            """,
            fixed="""
            def windows(x: torch.Tensor, size: int):
                result = torch.zeros(x.size(0), size, device=x.device)
                result[:, : x.size(1)] = x
                return result
            """,
        ),
        Invalid(
            """
            class Crop(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.width = width

                def forward(self, samples):
                    cropped = torch.empty((samples.shape[0], self.width))
                    for i, sample in enumerate(samples):
                        cropped[i] = sample[: self.width]
                    return cropped, samples.mean()
            """
        ),
    ]

    def visit_file(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        for found in left_behind(ctx):
            made = found.fault.made
            given = sorted(found.fault.roots)[0]
            yield ctx.finding(
                self,
                found.site,
                f"`{ctx.source_of(made.factory.func)}` creates the result on the CPU, wherever `{given}` is",
                related=[("it is returned here", found.fault.node)],
                fixes=[repaired(found, ctx)],
            )
