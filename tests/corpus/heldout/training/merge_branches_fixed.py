# target: script
# source: https://github.com/asyml/texar-pytorch/issues/72
# truth: none, the repaired twin of merge_branches.py
import io
from typing import Callable, List, Optional

import torch
import torch.nn as nn


class MergeLayer(nn.Module):
    r"""Feeds the input to several layers and merges their outputs along the channels.

    Args:
        layers: modules, each maps ``(batch, channels, time)`` to ``(batch, k)``
        mode: "concat" or "sum"
    """

    def __init__(self, layers: Optional[List[nn.Module]] = None, mode: str = "concat"):
        super().__init__()
        if mode not in ("concat", "sum"):
            raise ValueError(f"unknown mode {mode}")
        self._mode = mode
        self._layers = nn.ModuleList()
        for layer in layers or []:
            self._layers.append(layer)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        outs = [layer(x) for layer in self._layers]
        return torch.cat(outs, dim=1) if self._mode == "concat" else torch.stack(outs).sum(0)


def conv_branch(dim: int, width: int, kernel: int) -> nn.Module:
    return nn.Sequential(nn.Conv1d(dim, width, kernel), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten())


class TextCNN(nn.Module):
    def __init__(self, vocab: int = 40, dim: int = 12, width: int = 8, kernels=(2, 3, 4)):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.convs = MergeLayer([conv_branch(dim, width, k) for k in kernels])
        self.output = nn.Linear(width * len(kernels), 2)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.output(self.convs(self.embed(tokens).transpose(1, 2)))


def phrases(n: int, vocab: int = 40, length: int = 12):
    """positive if the bigram (3, 7) occurs somewhere"""
    x = torch.randint(0, vocab, (n, length))
    y = torch.randint(0, 2, (n,))
    pos = torch.randint(0, length - 1, (n,))
    for i in range(n):
        if y[i]:
            x[i, pos[i]], x[i, pos[i] + 1] = 3, 7
        else:
            x[i, pos[i]] = 3 if i % 2 else 7
    hit = ((x[:, :-1] == 3) & (x[:, 1:] == 7)).any(1).long()
    return x, hit


def accuracy(model: Callable, data) -> float:
    with torch.no_grad():
        return (model(data[0]).argmax(1) == data[1]).float().mean().item()


def main() -> None:
    torch.manual_seed(0)
    train, test = phrases(1500), phrases(500)
    model = TextCNN()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(6):
        for idx in torch.randperm(len(train[0])).split(50):
            loss = nn.functional.cross_entropy(model(train[0][idx]), train[1][idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: train {accuracy(model, train):.3f} test {accuracy(model, test):.3f}")
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    buffer.seek(0)
    restored = TextCNN()
    restored.load_state_dict(torch.load(buffer))
    print(f"restored from checkpoint: test {accuracy(restored, test):.3f}")


if __name__ == "__main__":
    main()
