# source: https://github.com/sebastian-hofstaetter/matchmaker/issues/18
# target: KLDivTeacherList.forward
# truth: KLDivLoss receives probabilities (softmax) as input where it expects log-probabilities; the value is no KL
#   divergence (negative), its minimum is not at the teacher's ranking distribution
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class MarginMSE(nn.Module):
    def forward(self, scores, labels):
        diff_student = scores[:, :1] - scores[:, 1:]
        diff_teacher = labels[:, :1] - labels[:, 1:]
        return torch.mean((diff_student - diff_teacher) ** 2)


class ListNet(nn.Module):
    def forward(self, scores, labels):
        return -(labels.softmax(-1) * scores.log_softmax(-1)).sum(-1).mean()


class KLDivTeacherList(nn.Module):
    def __init__(self):
        super().__init__()
        self.kl = torch.nn.KLDivLoss(reduction="batchmean")

    def forward(self, scores, labels):
        return self.kl(scores.softmax(-1), labels.softmax(-1))  # culprit


LOSSES = {"margin-mse": MarginMSE, "listnet": ListNet, "kl-teacher-list": KLDivTeacherList}


def get_loss(config):
    name = config["loss"]
    if name not in LOSSES:
        raise KeyError("unknown loss: " + name)
    return LOSSES[name]()


class DotRanker(nn.Module):
    """Bag-of-words query and passage towers with a dot product."""

    def __init__(self, vocab, dim):
        super().__init__()
        self.embed = nn.EmbeddingBag(vocab, dim, mode="mean", padding_idx=0)
        self.project = nn.Linear(dim, dim, bias=False)

    def tower(self, tokens):
        return self.project(self.embed(tokens))

    def forward(self, query, passages):
        n, k, length = passages.shape
        q = self.tower(query).unsqueeze(1)
        p = self.tower(passages.view(n * k, length)).view(n, k, -1)
        return (q * p).sum(-1)


def teacher_scores(query, passages):
    overlap = (passages.unsqueeze(-1) == query[:, None, None, :]).any(-1)
    return overlap.float().sum(-1)


def build_data(n, k, vocab, seed):
    g = torch.Generator().manual_seed(seed)
    query = torch.randint(1, vocab, (n, 4), generator=g)
    passages = torch.randint(1, vocab, (n, k, 8), generator=g)
    for j in range(min(4, k)):
        passages[:, j, :j] = query[:, :j]
    return query, passages, teacher_scores(query, passages)


def evaluate(model, data, device):
    query, passages, labels = (d.to(device) for d in data)
    model.eval()
    with torch.no_grad():
        scores = model(query, passages)
    best = labels.gather(1, scores.argmax(1, keepdim=True)).squeeze(1)
    return (best == labels.max(1).values).float().mean().item()


def train(config):
    torch.manual_seed(config["seed"])
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = DotRanker(config["vocab"], config["dim"]).to(device)
    loss_fn = get_loss(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
    train_set = TensorDataset(*build_data(400, 6, config["vocab"], seed=1))
    for epoch in range(config["epochs"]):
        model.train()
        losses = []
        for query, passages, labels in DataLoader(train_set, batch_size=50, shuffle=True):
            scores = model(query.to(device), passages.to(device))
            loss = loss_fn(scores, labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        hit = evaluate(model, build_data(200, 6, config["vocab"], seed=2), device)
        print("epoch %d loss %.4f hit@1 %.3f" % (epoch, sum(losses) / len(losses), hit))


if __name__ == "__main__":
    train({"loss": "kl-teacher-list", "vocab": 40, "dim": 32, "lr": 0.01, "epochs": 4, "seed": 0})
