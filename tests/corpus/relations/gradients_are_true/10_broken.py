"""Discrete communication: a speaker names an object, a listener picks it."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def sample_one_hot(logits, temperature=1.0):
    uniform = torch.rand_like(logits).clamp(1e-6, 1 - 1e-6)
    gumbel = -torch.log(-torch.log(uniform))
    soft = F.softmax((logits + gumbel) / temperature, dim=-1)
    hard = F.one_hot(soft.argmax(dim=-1), logits.shape[-1]).to(soft.dtype)
    return hard + soft.detach() - soft


class Speaker(nn.Module):
    def __init__(self, features, symbols, hidden=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, symbols))

    def forward(self, objects, temperature):
        return sample_one_hot(self.net(objects), temperature)


class Listener(nn.Module):
    def __init__(self, features, symbols, dim=16):
        super().__init__()
        self.symbol = nn.Linear(symbols, dim, bias=False)
        self.object = nn.Linear(features, dim)

    def forward(self, message, candidates):
        query = self.symbol(message)
        return torch.einsum("bd,bcd->bc", query, self.object(candidates))


class Game:
    def __init__(self, features=5, symbols=8, distractors=3):
        self.features, self.distractors = features, distractors
        self.speaker = Speaker(features, symbols)
        self.listener = Listener(features, symbols)
        params = [*self.speaker.parameters(), *self.listener.parameters()]
        self.optimizer = torch.optim.Adam(params, lr=5e-3)

    def play(self, n=64, temperature=1.0):
        candidates = torch.randn(n, self.distractors + 1, self.features)
        goal = torch.randint(0, self.distractors + 1, (n,))
        message = self.speaker(candidates[torch.arange(n), goal], temperature)
        scores = self.listener(message, candidates)
        return F.cross_entropy(scores, goal), (scores.argmax(1) == goal).float().mean()

    def train(self, rounds):
        for _ in range(rounds):
            loss, accuracy = self.play()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item(), accuracy.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    loss, accuracy = Game().train(40)
    print(f"loss {loss:.4f}, accuracy {accuracy:.2f}")
