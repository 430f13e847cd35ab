"""Rule DG932: micro-batches that do not add up to the batch."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class AccumulationUneven(Rule):
    """
    ## What it does
    Calls a training step that runs `backward()` several times before `optimizer.step()` once more, and measures how
    much each micro-batch contributes to the gradient. It reports:

    - means over different numbers of targets (`ignore_index`, class weights) that all get the same weight,
    - a first or last group with fewer micro-batches whose losses are divided as in a full group,
    - gradients that are clipped or scaled after each micro-batch rather than once before the step,
    - the last samples of a batch if they are in no micro-batch.

    ## Why is this bad?
    Accumulation should give the gradient of the large batch. If it does not, results depend on the micro-batch size:
    tokens of short sequences weigh more than those of long ones, a step uses a quarter of its gradient, or clipping
    acts on a partial sum, and nothing raises.

    Losses that are summed and divided by the count of the whole step are right. Steps with more than one optimizer are
    not tried.

    ## Example
    ```python
    for batch in micro_batches:
        loss = F.cross_entropy(model(batch.ids), batch.labels, ignore_index=-100)
        (loss / len(micro_batches)).backward()
    optimizer.step()
    ```
    Use instead:
    ```python
    count = sum((batch.labels != -100).sum() for batch in micro_batches)
    for batch in micro_batches:
        loss = F.cross_entropy(model(batch.ids), batch.labels, ignore_index=-100, reduction="sum")
        (loss / count).backward()
    optimizer.step()
    ```
    """

    code, name, since = "DG932", "accumulation-uneven", "0.1"
    severity = "warning"
    run_only = True
    relation = "accumulation adds up"
    VALID = [
        Valid(
            """
            import torch
            import torch.nn as nn
            import torch.nn.functional as F

            model = nn.Linear(5, 3)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)

            # dry-run: x=torch.randn(6, 5), y=torch.tensor([0, 1, -100, 2, -100, -100])
            def step(x, y):
                optimizer.zero_grad()
                count = (y != -100).sum()
                for inputs, targets in zip(x.split(3), y.split(3)):
                    loss = F.cross_entropy(model(inputs), targets, reduction="sum")
                    (loss / count).backward()
                optimizer.step()
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch
            import torch.nn as nn
            import torch.nn.functional as F

            model = nn.Linear(5, 3)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)

            # dry-run: x=torch.randn(6, 5), y=torch.tensor([0, 1, -100, 2, -100, -100])
            def step(x, y):
                optimizer.zero_grad()
                for inputs, targets in zip(x.split(3), y.split(3)):
                    loss = F.cross_entropy(model(inputs), targets)
                    (loss / 2).backward()
                optimizer.step()
            """,
        ),
    ]
