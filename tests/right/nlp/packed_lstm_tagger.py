"""A bidirectional packed LSTM that tags tokens: pad positions are dropped by a boolean mask before the loss."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Tagger(nn.Module):
    def __init__(self, vocab: int, tags: int, dim: int = 24):
        super().__init__()
        self.embedding = nn.Embedding(vocab, dim, padding_idx=0)
        self.lstm = nn.LSTM(dim, dim, batch_first=True, bidirectional=True)
        self.classifier = nn.Linear(2 * dim, tags)

    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        embedded = self.embedding(tokens)
        packed = pack_padded_sequence(embedded, lengths.cpu(), batch_first=True, enforce_sorted=False)
        output, _ = self.lstm(packed)
        output, _ = pad_packed_sequence(output, batch_first=True, total_length=tokens.size(1))
        return self.classifier(output)


def batch(n: int, generator: torch.Generator, max_len: int = 9):
    """Tag 1 where a token is larger than both of its neighbours, else 0."""
    lengths = torch.randint(3, max_len + 1, (n,), generator=generator)
    tokens = torch.randint(1, 20, (n, max_len), generator=generator)
    mask = torch.arange(max_len)[None, :] < lengths[:, None]
    tokens = tokens.masked_fill(~mask, 0)
    left, right = F.pad(tokens, (1, 0))[:, :-1], F.pad(tokens, (0, 1))[:, 1:]
    return tokens, lengths, ((tokens > left) & (tokens > right)).long(), mask


def run():
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Tagger(20, 2).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(100):
        tokens, lengths, tags, mask = batch(32, g)
        tokens, tags, mask = tokens.to(device), tags.to(device), mask.to(device)
        logits = model(tokens, lengths)
        loss = F.cross_entropy(logits[mask], tags[mask])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        if step % 25 == 0:
            print(f"{step:3d} loss {loss.item():.3f}")
    model.eval()
    with torch.no_grad():
        tokens, lengths, tags, mask = batch(200, g)
        mask = mask.to(device)
        pred = model(tokens.to(device), lengths).argmax(-1)
        print(f"accuracy {(pred == tags.to(device))[mask].float().mean().item():.3f}")


if __name__ == "__main__":
    run()
