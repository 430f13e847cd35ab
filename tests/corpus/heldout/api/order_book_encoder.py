# target: BookClassifier.forward
# truth: lengths_to_mask marks the valid steps with True, and the mask goes as src_key_padding_mask, where True means "ignore": attention sees only the padding; silent in training (logits depend on what the padding holds), in eval without grad a full-length row gives NaN.
"""Encode variable length windows of limit order book updates and classify the next move."""
import torch
from torch import nn


def lengths_to_mask(lengths, max_len):
    steps = torch.arange(max_len, device=lengths.device)
    return steps[None, :] < lengths[:, None]


class StepEmbedding(nn.Module):
    def __init__(self, levels, width, max_len):
        super().__init__()
        self.proj = nn.Linear(levels * 4, width)
        self.position = nn.Parameter(torch.randn(max_len, width) * 0.02)

    def forward(self, updates):
        return self.proj(updates) + self.position[: updates.shape[1]]


class BookClassifier(nn.Module):
    """updates: (batch, steps, levels * 4), lengths: (batch,) number of true steps."""

    def __init__(self, levels=5, width=32, heads=4, depth=2, max_len=64, classes=3):
        super().__init__()
        self.embed = StepEmbedding(levels, width, max_len)
        layer = nn.TransformerEncoderLayer(
            width, heads, dim_feedforward=2 * width, dropout=0.0, batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def pool(self, hidden, valid):
        weight = valid.unsqueeze(-1).to(hidden.dtype)
        return (hidden * weight).sum(1) / weight.sum(1).clamp_min(1.0)

    def forward(self, updates, lengths):
        valid = lengths_to_mask(lengths, updates.shape[1])
        hidden = self.embed(updates)
        hidden = self.encoder(hidden, src_key_padding_mask=valid)  # error: DG751
        return self.head(self.norm(self.pool(hidden, valid)))


def collate(windows):
    lengths = torch.tensor([len(w) for w, _ in windows])
    target = torch.tensor([y for _, y in windows])
    updates = nn.utils.rnn.pad_sequence([w for w, _ in windows], batch_first=True)
    return updates, lengths, target


def demo():
    torch.manual_seed(0)
    sizes = [12, 30, 7, 21]
    windows = [(torch.randn(n, 20), n % 3) for n in sizes]
    updates, lengths, target = collate(windows)
    model = BookClassifier()
    logits = model(updates, lengths)
    loss = nn.functional.cross_entropy(logits, target)
    print("logits", logits.detach())
    print("loss", loss.item())


if __name__ == "__main__":
    demo()
