# target: script
# truth: The prompt is a plain tensor with requires_grad: `parameters()` does not have it, and it is never trained or
#   saved. nn.Parameter registers it.
"""Prompt tuning: only a few vectors in front of the input are learned."""

import torch
import torch.nn as nn


class PromptedEncoder(nn.Module):
    def __init__(self, encoder: nn.Module, width: int, length: int, classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        for parameter in self.encoder.parameters():
            parameter.requires_grad = False
        self.prompt = torch.zeros(1, length, width, requires_grad=True)  # error: DG744
        self.classifier = nn.Linear(width, classes)

    def forward(self, embedded: torch.Tensor) -> torch.Tensor:
        prompt = self.prompt.expand(len(embedded), -1, -1)
        hidden = self.encoder(torch.cat([prompt, embedded], dim=1))
        return self.classifier(hidden[:, 0])


def build() -> PromptedEncoder:
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    return PromptedEncoder(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), 16, 4, 3)


def main() -> None:
    torch.manual_seed(0)
    model = build()
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=1e-2)
    for _ in range(3):
        embedded, labels = torch.randn(6, 9, 16), torch.randint(0, 3, (6,))
        loss = nn.functional.cross_entropy(model(embedded), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
