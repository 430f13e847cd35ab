import torch
import torch.nn as nn


class VisualQA(nn.Module):
    """Question answering over region features."""

    def __init__(self, vocab=100, region_dim=20, dim=32, answers=12):
        super().__init__()
        self.embed = nn.EmbeddingBag(vocab, dim)
        self.region = nn.Linear(region_dim, dim)
        self.score = nn.Linear(dim, 1)
        self.answer = nn.Linear(2 * dim, answers)

    def forward(self, question, regions):
        q = self.embed(question)
        r = self.region(regions)
        s = self.score(torch.tanh(r + q[:, None])).squeeze()
        w = s.softmax(dim=-1)
        v = torch.bmm(w.unsqueeze(1), r).squeeze(1)
        return self.answer(torch.cat([q, v], dim=-1))


def main():
    torch.manual_seed(0)
    model = VisualQA()
    question = torch.randint(0, 100, (6, 8))
    regions = torch.randn(6, 10, 20)
    answer = torch.randint(0, 12, (6,))
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for it in range(10):
        loss = nn.functional.cross_entropy(model(question, regions), answer)
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        print("answers", model(question, regions).argmax(-1).tolist(), "truth", answer.tolist())


if __name__ == "__main__":
    main()
