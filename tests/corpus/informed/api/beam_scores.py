# target: constrained_decode
# truth: `masked_fill` returns a new tensor, which is thrown away: the forbidden tokens are not forbidden.
"""Greedy decoding with forbidden tokens."""

import torch
from torch import nn


class LanguageModel(nn.Module):
    def __init__(self, words: int = 40, width: int = 16) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden, _ = self.rnn(self.embedding(tokens))
        return self.out(hidden)


def forbidden_mask(words: int, forbidden: list[int], device: torch.device) -> torch.Tensor:
    mask = torch.zeros(words, dtype=torch.bool, device=device)
    mask[forbidden] = True
    return mask


@torch.no_grad()
def constrained_decode(model: LanguageModel, prompt: torch.Tensor, forbidden: list[int], steps: int = 5) -> torch.Tensor:
    """Return the prompt with `steps` more tokens, none of them forbidden."""
    model.eval()
    mask = forbidden_mask(model.out.out_features, forbidden, prompt.device)
    for _ in range(steps):
        scores = model(prompt)[:, -1]
        scores.masked_fill(mask, float("-inf"))  # error: DG747
        prompt = torch.cat([prompt, scores.argmax(dim=-1, keepdim=True)], dim=1)
    return prompt


if __name__ == "__main__":
    torch.manual_seed(0)
    tokens = constrained_decode(LanguageModel(), torch.randint(0, 40, (2, 3)), list(range(20)))
    print(tokens)
