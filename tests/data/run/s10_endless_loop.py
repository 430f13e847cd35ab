"""S10: "backward stops responding" is a loop whose condition never changes."""

import torch


# dry-run: x=torch.ones(4, device="cuda", requires_grad=True)
def settle(x):
    total = x.sum()
    while total.item() < 1e9:  # expect: DG902
        pass
    return total
