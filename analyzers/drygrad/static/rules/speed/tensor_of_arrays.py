"""Rule DG609: a tensor made of a list of NumPy arrays."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Dtype
from drygrad.static.rules.speed.arrays import Arrays

JOINED = frozenset({"torch.tensor", "torch.as_tensor", "torch.asarray"})
"""Calls that take one array as they take a list of them."""
_CALLS = JOINED | {"torch.Tensor"}


class TensorOfArrays(Rule):
    """
    ## What it does
    Finds `torch.tensor(...)` and the like on a list of NumPy arrays, as shown by functions, annotations and dataclass
    fields, or seen in a dry run.

    ## Why is this bad?
    Every number is converted to a Python object and back: a batch of images takes seconds, while `np.stack` and
    `torch.from_numpy` take milliseconds. torch warns about it once per process.

    ## Example
    ```python
    def stacked(n: int) -> torch.Tensor:
        frames = [np.zeros((64, 64), dtype=np.float32) for _ in range(n)]
        return torch.tensor(frames)
    ```
    Use instead:
    ```python
    def stacked(n: int) -> torch.Tensor:
        frames = [np.zeros((64, 64), dtype=np.float32) for _ in range(n)]
        return torch.from_numpy(np.stack(frames))
    ```

    ## Fix safety
    Safe: numbers and dtype are the same. Arrays of different shapes raise either way.
    """

    code, name, since = "DG609", "tensor-of-arrays", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            import numpy as np
            import torch

            # dry-run: n=4
            def batch(n):
                return torch.from_numpy(np.stack([np.zeros(8, dtype=np.float32) for _ in range(n)]))
            """
        ),
        Valid(
            """
            import numpy as np
            from typing import List, NamedTuple

            class Step(NamedTuple):
                seen: np.ndarray
                action: int

            def batch(steps: List[Step], other, rows: List[np.ndarray]):
                numbers = [np.mean(row) for row in rows]
                frames = np.stack([step.seen for step in steps])
                picked = [row[0] for row in rows]
                mixed = []
                mixed.append(other)
                return (
                    torch.tensor([step.action for step in steps]), torch.tensor(frames), torch.tensor(numbers),
                    torch.tensor(picked), torch.tensor(other), torch.tensor(mixed), torch.tensor(rows[0]),
                    torch.tensor([[1, 2], [3, 4]]), torch.stack([torch.from_numpy(row) for row in rows]),
                )
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import numpy as np
            import torch

            # dry-run: n=4
            def batch(n):
                frames = [np.zeros(8, dtype=np.float32) for _ in range(n)]
                return torch.tensor(frames)
            """,
            """
            import numpy as np
            import torch

            # dry-run: n=4
            def batch(n):
                frames = [np.zeros(8, dtype=np.float32) for _ in range(n)]
                return torch.tensor(np.stack(frames))
            """,
            at=(7, 11, 7, 31),
        ),
        Invalid(
            """
            import numpy as np
            import torch
            from typing import List, NamedTuple

            class Step(NamedTuple):
                seen: np.ndarray
                action: int

            def as_tensor(frames, device):
                return torch.tensor(frames, device=device)

            def batch(steps: List[Step], device):
                return as_tensor([step.seen for step in steps], device)
            """,
            """
            import numpy as np
            import torch
            from typing import List, NamedTuple

            class Step(NamedTuple):
                seen: np.ndarray
                action: int

            def as_tensor(frames, device):
                return torch.tensor(np.stack(frames), device=device)

            def batch(steps: List[Step], device):
                return as_tensor([step.seen for step in steps], device)
            """,
        ),
        Invalid(
            """
            import numpy as np
            import torch

            class Memory:
                def __init__(self):
                    self.frames = []

                def push(self, frame: np.ndarray):
                    self.frames.append(frame.astype(np.float32) / 255)

                def all(self):
                    return torch.FloatTensor(self.frames)
            """
        ),
        Invalid(
            """
            import torch

            def collect(model, loader):
                found = []
                for x in loader:
                    found.append(model(x).detach().cpu().numpy())
                return torch.as_tensor(found)
            """
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        name = ctx.name(node.func)
        is_of_type = isinstance(ctx.value(node.func), Dtype)  # torch.FloatTensor and its kind
        if not (name in _CALLS or is_of_type) or len(node.args) != 1 or not Arrays(ctx).is_list(node.args[0]):
            return
        message = "building a tensor from a list of NumPy arrays is slow; call np.stack first"
        yield ctx.finding(self, node, message, fixes=[stacked(node, ctx) if name in JOINED else None])


def stacked(node: ast.Call, ctx: Context) -> Fix | None:
    """Join the arrays of the list that a call is given."""
    numpy = ctx.imported_as("numpy")
    listed = node.args[0]
    if numpy is None or isinstance(listed, (ast.List, ast.Tuple)):
        return None
    text = f"{numpy}.stack({ctx.source_of(listed)})"
    return ctx.fix("Use `np.stack` first", ctx.replace(listed, text), safety="safe")
