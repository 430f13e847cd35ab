"""S19: under no_grad the forward records nothing, so that backward() has nothing to go back through."""

import torch
import torch.nn as nn


def main():
    model = nn.Linear(100, 10)
    optimizer = torch.optim.Adam(model.parameters())
    inputs, labels = torch.randn(32, 100), torch.randint(0, 10, (32,))
    optimizer.zero_grad()
    with torch.no_grad():
        outputs = model(inputs)
        loss = nn.functional.cross_entropy(outputs, labels)
        loss.backward()  # expect: DG103 error
    optimizer.step()


if __name__ == "__main__":
    main()
