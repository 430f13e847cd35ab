"""S5: BCEWithLogits with (10,) against (10, 1): a ValueError in Python, before any kernel runs."""

import torch
import torch.nn as nn


def main():
    target = torch.rand(10, 1)
    prediction = torch.randn(10, requires_grad=True)
    criterion = nn.BCEWithLogitsLoss()
    loss = criterion(prediction, target)  # expect: DG301 error
    loss.backward()


if __name__ == "__main__":
    main()
