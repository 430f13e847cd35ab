# target: script
"""Train a small bag-of-embeddings intent classifier on synthetic token ids."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VOCAB, NUM_INTENTS, SEQ_LEN = 600, 12, 16


class IntentNet(nn.Module):
    def __init__(self, vocab: int, dim: int, num_intents: int):
        super().__init__()
        self.bag = nn.EmbeddingBag(vocab, dim, mode="mean")
        self.mlp = nn.Sequential(
            nn.Linear(dim, 2 * dim),
            nn.GELU(),
            nn.Dropout(0.1),
            nn.Linear(2 * dim, num_intents),
        )

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.mlp(self.bag(tokens))


def make_data(n: int, generator: torch.Generator) -> TensorDataset:
    """Each intent prefers its own slice of the vocabulary."""
    y = torch.randint(0, NUM_INTENTS, (n,), generator=generator)
    width = VOCAB // NUM_INTENTS
    own = y[:, None] * width + torch.randint(0, width, (n, SEQ_LEN), generator=generator)
    noise = torch.randint(0, VOCAB, (n, SEQ_LEN), generator=generator)
    keep = torch.rand(n, SEQ_LEN, generator=generator) < 0.6
    return TensorDataset(torch.where(keep, own, noise), y)


def accuracy(model: nn.Module, loader: DataLoader) -> float:
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for tokens, y in loader:
            correct += (model(tokens).argmax(dim=-1) == y).sum().item()
            total += y.numel()
    return correct / total


def main():
    gen = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    train = DataLoader(make_data(2048, gen), batch_size=64, shuffle=True)
    valid = DataLoader(make_data(512, gen), batch_size=256)
    model = IntentNet(VOCAB, 48, NUM_INTENTS)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    criterion = nn.CrossEntropyLoss()

    for epoch in range(6):
        model.train()
        total = 0.0
        for tokens, y in train:
            optimizer.zero_grad()
            loss = criterion(model(tokens), y)
            loss.backward()
            optimizer.step()
            total += loss.item() * y.numel()
        print(f"epoch {epoch}: loss {total / len(train.dataset):.4f} acc {accuracy(model, valid):.3f}")


if __name__ == "__main__":
    main()
