import torch
import torch.nn as nn


class DocumentScorer(nn.Module):
    """Scores documents of different length with a GRU cell."""

    def __init__(self, vocab=300, dim=24):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.cell = nn.GRUCell(dim, dim)
        self.out = nn.Linear(dim, 1)

    def forward(self, docs, lengths):
        x = self.emb(docs)
        scores = []
        for i in range(docs.size(0)):
            h = x.new_zeros(1, self.cell.hidden_size)
            for t in range(int(lengths[i])):
                h = self.cell(x[i, t].unsqueeze(0), h)
            scores.append(self.out(h).view(()))
        return torch.stack(scores)


def pairwise_hinge(scores, relevance):
    diff = scores[:, None] - scores[None, :]
    sign = torch.sign(relevance[:, None] - relevance[None, :])
    return torch.relu(1.0 - sign * diff)[sign != 0].mean()


def main():
    torch.manual_seed(0)
    docs = torch.randint(0, 300, (8, 10))
    lengths = torch.randint(3, 11, (8,))
    relevance = torch.randint(0, 3, (8,)).float()
    model = DocumentScorer()
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(5):
        loss = pairwise_hinge(model(docs, lengths), relevance)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
