# target: script
# source: https://github.com/asyml/texar-pytorch/pull/252
# truth: none, the repaired twin of length_masked_pooling.py
import torch
from torch import nn


def sequence_mask(lengths, max_len, device):
    steps = torch.arange(max_len, device=device)
    return steps.unsqueeze(0) < lengths.unsqueeze(1)


class PooledEncoder(nn.Module):
    r"""GRU encoder whose output is the mean of the valid time steps.

    Args:
        input_size, hidden_size: as for ``nn.GRU``
        inputs: ``(batch, time, input_size)``
        sequence_length: optional ``(batch,)``; all steps count if missing
    """

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.rnn = nn.GRU(input_size, hidden_size, batch_first=True)

    def forward(self, inputs, sequence_length=None):
        batch, time = inputs.shape[:2]
        if sequence_length is None:
            sequence_length = torch.full((batch,), time, dtype=torch.long, device=inputs.device)
        out, _ = self.rnn(inputs)
        keep = sequence_mask(sequence_length, time, inputs.device).unsqueeze(-1)
        return (out * keep).sum(1) / keep.sum(1).clamp(min=1)


class GestureClassifier(nn.Module):
    def __init__(self, channels=3, hidden=24, classes=4):
        super().__init__()
        self.encoder = PooledEncoder(channels, hidden)
        self.classify = nn.Linear(hidden, classes)

    def forward(self, x, lengths=None):
        return self.classify(self.encoder(x, lengths))


def draw(n, fixed_len=None):
    y = torch.randint(0, 4, (n,))
    lengths = torch.randint(10, 30, (n,)) if fixed_len is None else torch.full((n,), fixed_len)
    T = int(lengths.max())
    t = torch.arange(T).float()
    x = torch.stack([torch.sin(t * (0.15 + 0.2 * k) + s) for k, s in zip(y.tolist(), torch.rand(n) * 6)])
    x = torch.stack([x, x.roll(1, 1), x.roll(3, 1)], dim=-1) + 0.2 * torch.randn(n, T, 3)
    for i, L in enumerate(lengths.tolist()):
        x[i, L:] = 0
    return x, lengths, y


class Experiment:
    def __init__(self, seed=0):
        torch.manual_seed(seed)
        self.device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
        self.net = GestureClassifier().to(self.device)
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=5e-3)

    def train(self, iterations=80):
        self.net.train()
        for _ in range(iterations):
            x, lengths, y = (t.to(self.device) for t in draw(48))
            loss = nn.functional.cross_entropy(self.net(x, lengths), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        return loss.item()

    @torch.no_grad()
    def evaluate(self):
        self.net.eval()
        x, _, y = draw(200, fixed_len=24)
        pred = self.net(x.to(self.device)).argmax(1).cpu()
        return (pred == y).float().mean().item()


if __name__ == "__main__":
    exp = Experiment()
    print("train loss", round(exp.train(), 3))
    print("test accuracy", round(exp.evaluate(), 3))
