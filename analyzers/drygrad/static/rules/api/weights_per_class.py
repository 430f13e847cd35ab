"""Rule DG806: a weighted sampler whose weights are not those of the samples."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class WeightsPerClass(Rule):
    """
    ## What it does
    Reports a `WeightedRandomSampler` with fewer or more weights than the dataset has samples.

    ## Why is this bad?
    The sampler draws indices into its list of weights. With one weight for each of ten classes it draws the numbers 0
    to 9: training only sees the first ten samples of the dataset, and nothing raises. Each sample needs its own weight:
    that of its class.

    ## Example
    ```python
    sampler = WeightedRandomSampler(class_weights, len(dataset))
    ```
    Use instead:
    ```python
    sampler = WeightedRandomSampler(class_weights[labels], len(dataset))
    ```
    """

    code, name, since = "DG806", "weights-per-class", "0.1"
    severity = "error"
    run_only = True
    VALID = [
        Valid(
            """
            import torch
            from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

            # dry-run: n=8
            def batches(n):
                labels = torch.arange(n) % 2
                weights = torch.tensor([0.2, 0.8])
                sampler = WeightedRandomSampler(weights[labels], n)
                return [x for x, _ in DataLoader(TensorDataset(torch.ones(n), labels), sampler=sampler)]
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch
            from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

            # dry-run: n=8
            def batches(n):
                labels = torch.arange(n) % 2
                sampler = WeightedRandomSampler(torch.tensor([0.2, 0.8]), n)
                return [x for x, _ in DataLoader(TensorDataset(torch.ones(n), labels), sampler=sampler)]
            """,
            at=(7, 14, 7, 64),
        ),
    ]
