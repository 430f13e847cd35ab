"""Rule DG508: memory that grows from step to step."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid

_TRAINING = """\
import torch
from torch import nn

model = nn.Linear(1024, 4)
optimizer = torch.optim.SGD(model.parameters())
kept = []
for step in range(4):
    x = torch.randn(512, 1024)
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


class MemoryGrows(Rule):
    """
    ## What it does
    Reports tensors that stay alive after each optimizer step, so that every step needs more memory than the one before.
    A dry run measures this over at least three steps and reports growth of 1 MiB per step or more.

    If the tensors keep their graph, see DG501 or DG502.

    ## Why is this bad?
    The program runs out of memory after minutes or hours, on an unrelated line.

    ## Example
    ```python
    for x, y in loader:
        out = model(x)
        outputs.append(out.detach())
    ```
    Use instead:
    ```python
    for x, y in loader:
        out = model(x)
        outputs.append(out.detach().cpu())
    ```

    ## Fix safety
    A dry run tries a `detach` of what is kept. Unsafe: no gradient flows through it any more.
    """

    code, name, since = "DG508", "memory-grows", "0.1"
    run_only = True
    VALID = [Valid(_TRAINING + "    kept.append(loss.item())\n")]
    INVALID = [
        Invalid(
            _TRAINING + "    kept.append(x)\n",
            at=(13, 4, 13, 18),
        ),
    ]
