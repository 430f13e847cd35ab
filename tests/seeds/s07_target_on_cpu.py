"""S7: the prediction is on the GPU, the target was left on the CPU."""

import torch
import torch.nn as nn


def main():
    target = torch.randn(10)
    prediction = torch.randn(10, requires_grad=True, device="cuda")
    criterion = nn.MSELoss()
    loss = criterion(prediction, target)  # expect: DG205 error
    loss.backward()


if __name__ == "__main__":
    main()
