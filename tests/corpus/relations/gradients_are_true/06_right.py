"""Fine-tune the upper layers of a text encoder for sentiment."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self, vocab=200, dim=32, layers=4, heads=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout=0.0, batch_first=True)
            for _ in range(layers))

    def forward(self, ids, padding):
        h = self.embed(ids)
        for layer in self.layers:
            h = layer(h, src_key_padding_mask=padding)
        keep = (~padding).unsqueeze(-1).to(h.dtype)
        return (h * keep).sum(dim=1) / keep.sum(dim=1).clamp(min=1)


class Classifier(nn.Module):
    def __init__(self, encoder, classes=2):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(encoder.embed.embedding_dim, classes)

    def forward(self, ids, padding):
        return self.head(self.encoder(ids, padding))


def freeze_lower(encoder, count):
    """Freezes the embedding and the first ``count`` layers."""
    encoder.embed.requires_grad_(False)
    for layer in encoder.layers[:count]:
        layer.requires_grad_(False)


def reviews(n, length=12, vocab=200):
    ids = torch.randint(1, vocab, (n, length))
    lengths = torch.randint(4, length + 1, (n,))
    padding = torch.arange(length)[None, :] >= lengths[:, None]
    label = ((ids < 60) & ~padding).sum(1) > ((ids > 140) & ~padding).sum(1)
    return ids.masked_fill(padding, 0), padding, label.long()


def main():
    torch.manual_seed(0)
    model = Classifier(Encoder())
    freeze_lower(model.encoder, 3)
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(params, lr=1e-3)
    ids, padding, label = reviews(48)
    for step in range(8):
        loss = F.cross_entropy(model(ids, padding), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{sum(p.numel() for p in params)} trained weights, loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
