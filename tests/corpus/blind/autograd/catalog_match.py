# target: script
# truth: embed_text, written for indexing, is decorated with no_grad but the contrastive loss also calls it during
#   training, so the text tower gets no gradient and stays at its random initialisation; the loss still falls through
#   the image tower and nothing raises.
"""Image/text matching on a product catalogue with a symmetric contrastive loss."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class ProductCorpus(Dataset):
    """Toy catalogue: an image descriptor and a 6-token title per product."""

    vocab_size = 40

    def __init__(self, n, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.titles = torch.randint(1, self.vocab_size, (n, 6), generator=g)
        mixing = torch.randn(self.vocab_size, 24, generator=torch.Generator().manual_seed(99))
        self.images = mixing[self.titles].mean(dim=1) + 0.05 * torch.randn(n, 24, generator=g)

    def __len__(self):
        return len(self.titles)

    def __getitem__(self, i):
        return self.images[i], self.titles[i]


class DualEncoder(nn.Module):
    def __init__(self, vocab_size, dim=32):
        super().__init__()
        self.image_net = nn.Sequential(nn.Linear(24, 64), nn.GELU(), nn.Linear(64, dim))
        self.text_emb = nn.Embedding(vocab_size, 64, padding_idx=0)
        self.text_proj = nn.Linear(64, dim)
        self.logit_scale = nn.Parameter(torch.tensor(2.0))

    def embed_image(self, images):
        return F.normalize(self.image_net(images), dim=-1)

    @torch.no_grad()  # error: DG112
    def embed_text(self, tokens):
        words = self.text_emb(tokens)
        mask = tokens.ne(0).unsqueeze(-1)
        pooled = (words * mask).sum(1) / mask.sum(1).clamp(min=1)
        return F.normalize(self.text_proj(pooled), dim=-1)


def contrastive_loss(model, images, tokens):
    img = model.embed_image(images)
    txt = model.embed_text(tokens)
    logits = model.logit_scale.exp().clamp(max=100.0) * img @ txt.T
    labels = torch.arange(len(images), device=images.device)
    return 0.5 * (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels))


@torch.no_grad()
def recall_at_1(model, dataset):
    model.eval()
    index = model.embed_text(dataset.titles.to(device))
    queries = model.embed_image(dataset.images.to(device))
    best = (queries @ index.T).argmax(dim=1)
    return (best == torch.arange(len(best), device=device)).float().mean().item()


def main():
    torch.manual_seed(0)
    train, valid = ProductCorpus(512), ProductCorpus(128, seed=1)
    loader = DataLoader(train, batch_size=64, shuffle=True)
    model = DualEncoder(ProductCorpus.vocab_size).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(10):
        model.train()
        for images, tokens in loader:
            loss = contrastive_loss(model, images.to(device), tokens.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print("recall@1", round(recall_at_1(model, valid), 3))


if __name__ == "__main__":
    main()
