import torch
import torch.nn as nn


class MemoryReader(nn.Module):
    """Reads a story sentence by sentence and answers a question from the sentence states."""

    def __init__(self, vocab=80, dim=24):
        super().__init__()
        self.embed = nn.EmbeddingBag(vocab, dim)
        self.cell = nn.GRUCell(dim, dim)
        self.answer = nn.Linear(2 * dim, vocab)
        self.memory = []

    def forward(self, story, question):
        # story (B, S, W) word ids, question (B, W)
        b, s, w = story.shape
        h = self.embed.weight.new_zeros(b, self.cell.hidden_size)
        self.memory = []
        for k in range(s):
            h = self.cell(self.embed(story[:, k]), h)
            self.memory.append(h)
        q = self.embed(question)
        mem = torch.stack(self.memory, dim=1)
        att = (mem @ q.unsqueeze(-1)).squeeze(-1).softmax(dim=-1)
        read = (att.unsqueeze(-1) * mem).sum(1)
        return self.answer(torch.cat([read, q], dim=-1))


def main():
    torch.manual_seed(0)
    model = MemoryReader()
    model.eval()
    stories = torch.randint(0, 80, (12, 5, 6))
    questions = torch.randint(0, 80, (12, 6))
    answers = []
    with torch.no_grad():
        for i in range(0, 12, 4):
            answers.append(model(stories[i:i + 4], questions[i:i + 4]).argmax(-1))
    print(torch.cat(answers).tolist())


if __name__ == "__main__":
    main()
