# source: https://github.com/Quantum-Cheese/DeepReinforcementLearning_Pytorch/issues/1
# target: Worker.update_net
# truth: the stored log-probabilities are copied into a fresh tensor, which cuts them from the graph: the policy
#   loss has no gradient path and the policy head never moves, only the value loss trains
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical


class ActorCritic(nn.Module):
    def __init__(self, state_size, action_size, hidden=64):
        super(ActorCritic, self).__init__()
        self.affine = nn.Linear(state_size, hidden)
        self.policy = nn.Linear(hidden, action_size)
        self.value = nn.Linear(hidden, 1)

    def forward(self, state):
        x = F.relu(self.affine(state))
        return F.softmax(self.policy(x), dim=-1), self.value(x)


class Corridor:
    """Walk right to the end of a short corridor."""

    def __init__(self, length=6):
        self.length = length

    def reset(self):
        self.pos = 0
        return self._obs()

    def step(self, action):
        self.pos = max(0, self.pos + (1 if action == 1 else -1))
        done = self.pos >= self.length
        return self._obs(), 1.0 if done else -0.05, done

    def _obs(self):
        return torch.tensor([self.pos / self.length, 1.0])


class Worker:
    def __init__(self, global_net, optimizer, state_size, action_size, gamma=0.95, max_steps=40):
        self.global_net = global_net
        self.optimizer = optimizer
        self.local_net = ActorCritic(state_size, action_size)
        self.env = Corridor()
        self.gamma = gamma
        self.max_steps = max_steps
        self.memory = []

    def choose_action(self, state):
        probs, value = self.local_net(state)
        dist = Categorical(probs)
        action = dist.sample()
        return action.item(), dist.log_prob(action), value

    def run_episode(self):
        self.local_net.load_state_dict(self.global_net.state_dict())
        self.memory = []
        state, total = self.env.reset(), 0.0
        for _ in range(self.max_steps):
            action, log_prob, value = self.choose_action(state)
            state, reward, done = self.env.step(action)
            self.memory.append((reward, log_prob, value))
            total += reward
            if done:
                break
        return total

    def discounted(self):
        returns, running = [], 0.0
        for reward, _, _ in reversed(self.memory):
            running = reward + self.gamma * running
            returns.insert(0, running)
        return torch.tensor(returns)

    def update_net(self):
        returns = self.discounted()
        log_probs = torch.tensor([t[1] for t in self.memory], dtype=torch.float)  # culprit
        values = torch.cat([t[2] for t in self.memory])
        advantages = returns - values.detach()
        policy_loss = -(log_probs * advantages).mean()
        value_loss = F.smooth_l1_loss(values, returns)
        loss = policy_loss + 0.5 * value_loss

        self.local_net.zero_grad()
        loss.backward()
        for local, shared in zip(self.local_net.parameters(), self.global_net.parameters()):
            shared.grad = None if local.grad is None else local.grad.clone()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(2)
    net = ActorCritic(2, 2)
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    workers = [Worker(net, opt, 2, 2) for _ in range(2)]
    for episode in range(60):
        scores = []
        for w in workers:
            scores.append(w.run_episode())
            w.update_net()
        if episode % 20 == 19:
            with torch.no_grad():
                right = net(Corridor().reset())[0][1]
            print("episode", episode + 1, "score %.2f" % (sum(scores) / 2), "p(right) %.3f" % right.item())
