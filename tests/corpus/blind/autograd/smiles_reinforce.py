# target: Reinforcement.policy_gradient
# source: https://github.com/isayev/ReLeaSE/issues/39
# truth: the policy loss is summed from .item() numbers and wrapped into a fresh leaf tensor, so backward() reaches
#   no generator weight (all .grad stay None), optimizer.step() changes nothing and the reward never improves.
import torch
import torch.nn as nn

VOCAB = list("^CNO()=1$")
STOI = {c: i for i, c in enumerate(VOCAB)}
MAX_LEN = 14


class Generator(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.emb = nn.Embedding(len(VOCAB), hidden)
        self.cell = nn.GRUCell(hidden, hidden)
        self.out = nn.Linear(hidden, len(VOCAB))
        self.hidden = hidden

    def step(self, tok, h):
        h = self.cell(self.emb(tok), h)
        return self.out(h), h

    @torch.no_grad()
    def sample(self):
        h = torch.zeros(1, self.hidden)
        tok = torch.tensor([STOI["^"]])
        s = "^"
        while len(s) < MAX_LEN:
            logits, h = self.step(tok, h)
            tok = torch.multinomial(torch.softmax(logits, -1), 1)[0]
            s += VOCAB[tok.item()]
            if s[-1] == "$":
                break
        return s


def carbon_reward(smi):
    body = smi.strip("^$")
    return body.count("C") / max(len(body), 1)


class Reinforcement:
    def __init__(self, generator, reward_fn, lr=5e-3):
        self.generator = generator
        self.reward_fn = reward_fn
        self.opt = torch.optim.Adam(generator.parameters(), lr=lr)
        self.baseline = 0.0

    def log_probs(self, smi):
        h = torch.zeros(1, self.generator.hidden)
        out = []
        for prev, nxt in zip(smi[:-1], smi[1:]):
            logits, h = self.generator.step(torch.tensor([STOI[prev]]), h)
            out.append(torch.log_softmax(logits, -1)[0, STOI[nxt]])
        return out

    def policy_gradient(self, n_batch=12, gamma=0.97):
        rl_loss, total_reward = 0, 0.0
        for _ in range(n_batch):
            smi = self.generator.sample()
            reward = self.reward_fn(smi)
            discounted = reward - self.baseline
            for lp in self.log_probs(smi):
                rl_loss -= lp.item() * discounted  # error: DG105|DG106|DG112
                discounted *= gamma
            total_reward += reward
        mean_reward = total_reward / n_batch
        self.baseline = 0.9 * self.baseline + 0.1 * mean_reward
        rl_loss = torch.tensor(rl_loss / n_batch, requires_grad=True)
        self.opt.zero_grad()
        rl_loss.backward()
        nn.utils.clip_grad_norm_(self.generator.parameters(), 5.0)
        self.opt.step()
        return mean_reward, rl_loss.item()


def main():
    torch.manual_seed(21)
    rl = Reinforcement(Generator(), carbon_reward)
    history = []
    for it in range(60):
        reward, loss = rl.policy_gradient()
        history.append(reward)
        if (it + 1) % 15 == 0:
            print(f"iter {it + 1:3d} reward {sum(history[-15:]) / 15:.3f} loss {loss:+.3f}")
    return history


if __name__ == "__main__":
    main()
