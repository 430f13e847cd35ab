# target: script
# truth: src_key_padding_mask wants True for the positions to ignore, but the mask is True for the real items: attention
#   reads only the padding (rows of full length attend to nothing), so the output depends on padding and batch mates and
#   the hit rate stays low; no error.
"""Next-item recommendation from browsing sessions of different lengths."""
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

NUM_ITEMS = 50


def make_sessions(n, seed):
    """Sessions walk over the catalogue with a fixed stride; the next item continues the walk."""
    gen = torch.Generator().manual_seed(seed)
    sessions = []
    for _ in range(n):
        length = int(torch.randint(3, 12, (), generator=gen))
        first, stride = torch.randint(0, NUM_ITEMS, (2,), generator=gen)
        walk = (first + stride % 3 * torch.arange(length + 1)) % NUM_ITEMS + 1
        sessions.append((walk[:-1], walk[-1] - 1))
    return sessions


def collate(batch):
    items, following = zip(*batch)
    lengths = torch.tensor([len(i) for i in items])
    return pad_sequence(items, batch_first=True), lengths, torch.stack(following)


class SessionEncoder(nn.Module):
    def __init__(self, dim=32, heads=4, layers=2, max_len=16):
        super().__init__()
        self.items = nn.Embedding(NUM_ITEMS + 1, dim, padding_idx=0)
        self.recency = nn.Embedding(max_len, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.score = nn.Linear(dim, NUM_ITEMS)

    def forward(self, items, lengths):
        steps = torch.arange(items.size(1), device=items.device)
        mask = steps < lengths.unsqueeze(1)
        ago = (lengths.unsqueeze(1) - 1 - steps).clamp_min(0)
        x = self.items(items) + self.recency(ago)
        x = self.encoder(x, src_key_padding_mask=mask)  # error: DG751
        weight = mask.unsqueeze(-1).to(x.dtype)
        pooled = (x * weight).sum(dim=1) / weight.sum(dim=1)
        return self.score(pooled)


def main(epochs=5):
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train = DataLoader(make_sessions(1200, seed=1), batch_size=48, shuffle=True, collate_fn=collate)
    valid = DataLoader(make_sessions(300, seed=2), batch_size=100, collate_fn=collate)
    model = SessionEncoder().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        model.train()
        for items, lengths, following in train:
            items, lengths, following = items.to(device), lengths.to(device), following.to(device)
            loss = criterion(model(items, lengths), following)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        hits = torch.zeros((), dtype=torch.long, device=device)
        with torch.no_grad():
            for items, lengths, following in valid:
                best = model(items.to(device), lengths.to(device)).argmax(dim=1)
                hits += (best == following.to(device)).sum()
        print(f"epoch {epoch}: hit rate {hits.item() / len(valid.dataset):.3f}")


if __name__ == "__main__":
    main()
