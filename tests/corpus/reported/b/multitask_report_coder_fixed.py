# source: https://github.com/pytorch/pytorch/issues/15005
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

num_classes = [5, 2, 7, 3]
task_names = ["site", "laterality", "histology", "grade"]


class MultiTaskCNN(nn.Module):
    """Word level CNN over pathology reports with one softmax head per task."""

    def __init__(self, vocab_size, embed_dim, num_filters, filter_sizes, num_classes, dropout=0.3):
        super(MultiTaskCNN, self).__init__()
        self.embedding = nn.Embedding(vocab_size, embed_dim, padding_idx=0)
        self.convs = nn.ModuleList([nn.Conv1d(embed_dim, num_filters, k, padding=k // 2) for k in filter_sizes])
        self.dropout = nn.Dropout(dropout)
        hidden = num_filters * len(filter_sizes)
        self.heads = nn.ModuleList([nn.Linear(hidden, c) for c in num_classes])
        for head in self.heads:
            nn.init.xavier_uniform_(head.weight)
            nn.init.zeros_(head.bias)

    def forward(self, tokens):
        x = self.embedding(tokens).transpose(1, 2)
        pooled = [F.relu(conv(x)).amax(dim=2) for conv in self.convs]
        h = self.dropout(torch.cat(pooled, dim=1))
        return [head(h) for head in self.heads]


class Trainer:
    def __init__(self, model, device, lr=5e-3):
        self.model = model.to(device)
        self.device = device
        self.optimizer = optim.Adam(self.model.parameters(), lr=lr)

    def batches(self, tokens, labels, size, shuffle):
        order = torch.randperm(len(tokens)) if shuffle else torch.arange(len(tokens))
        for idx in order.split(size):
            yield tokens[idx].to(self.device), labels[idx].to(self.device)

    def train(self, tokens, labels, epochs=3, batch_size=32):
        for epoch in range(epochs):
            self.model.train()
            running = 0.0
            for x, y in self.batches(tokens, labels, batch_size, True):
                logits = self.model(x)
                loss = sum(F.cross_entropy(l, y[:, i]) for i, l in enumerate(logits))
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                running += loss.item() * len(x)
            print("epoch %d loss %.4f" % (epoch + 1, running / len(tokens)))

    def score(self, tokens, labels, batch_size=64):
        self.model.eval()
        hits = torch.zeros(len(num_classes))
        with torch.no_grad():
            for x, y in self.batches(tokens, labels, batch_size, False):
                pred = torch.stack([l.argmax(1) for l in self.model(x)], dim=1)
                hits += (pred == y).sum(0).cpu()
        return {name: round(h, 3) for name, h in zip(task_names, (hits / len(tokens)).tolist())}

    def checkpoint(self):
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}


def synthetic_reports(n, length=20, vocab=60):
    tokens = torch.randint(20, vocab, (n, length))
    labels = torch.stack([torch.randint(0, c, (n,)) for c in num_classes], dim=1)
    offset = 1
    for i, c in enumerate(num_classes):
        tokens[torch.arange(n), torch.randint(0, length, (n,))] = labels[:, i] + offset
        offset += c
    return tokens, labels


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = MultiTaskCNN(60, 24, 32, (1, 3), num_classes)
    trainer = Trainer(model, device)
    tokens, labels = synthetic_reports(400)
    trainer.train(tokens, labels)
    print(trainer.score(*synthetic_reports(200)))
    print("saved tensors", len(trainer.checkpoint()["model"]))
