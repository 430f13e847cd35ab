# source: https://github.com/RITCHIEHuang/DeepRL_Algorithms/issues/13
# target: ppo_step
# truth: ratio is (B,) and advantages (B, 1): their product broadcasts to (B, B), every action is credited with every
#   advantage; the loss is finite, learning is slow and noisy
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Normal


def estimate_advantages(rewards, masks, values, gamma, tau):
    """GAE, all tensors of shape (batch, 1)."""
    deltas = torch.zeros_like(rewards)
    advantages = torch.zeros_like(rewards)
    prev_value = 0.0
    prev_advantage = 0.0
    for i in reversed(range(rewards.size(0))):
        deltas[i] = rewards[i] + gamma * prev_value * masks[i] - values[i]
        advantages[i] = deltas[i] + gamma * tau * prev_advantage * masks[i]
        prev_value = values[i, 0]
        prev_advantage = advantages[i, 0]
    returns = values + advantages
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    return advantages, returns


class Policy(nn.Module):
    def __init__(self, dim_state, dim_action, dim_hidden=64):
        super().__init__()
        self.mean = nn.Sequential(nn.Linear(dim_state, dim_hidden), nn.Tanh(), nn.Linear(dim_hidden, dim_action))
        self.log_std = nn.Parameter(torch.full((1, dim_action), -0.5))

    def forward(self, states):
        mean = self.mean(states)
        return Normal(mean, self.log_std.exp().expand_as(mean))

    def get_log_prob(self, states, actions):
        return self.forward(states).log_prob(actions).sum(dim=-1)


class Value(nn.Module):
    def __init__(self, dim_state, dim_hidden=64):
        super().__init__()
        self.value = nn.Sequential(nn.Linear(dim_state, dim_hidden), nn.Tanh(), nn.Linear(dim_hidden, 1))

    def forward(self, states):
        return self.value(states)


def ppo_step(policy_net, value_net, optimizer_policy, optimizer_value, optim_value_iternum, states, actions,
             returns, advantages, old_log_probs, epsilon, l2_reg):
    for _ in range(optim_value_iternum):
        value_loss = F.mse_loss(value_net(states), returns)
        for param in value_net.parameters():
            value_loss = value_loss + param.pow(2).sum() * l2_reg
        optimizer_value.zero_grad()
        value_loss.backward()
        optimizer_value.step()

    log_probs = policy_net.get_log_prob(states, actions)
    ratio = torch.exp(log_probs - old_log_probs)
    surr1 = ratio * advantages  # culprit
    surr2 = torch.clamp(ratio, 1.0 - epsilon, 1.0 + epsilon) * advantages
    policy_loss = -torch.min(surr1, surr2).mean()
    optimizer_policy.zero_grad()
    policy_loss.backward()
    torch.nn.utils.clip_grad_norm_(policy_net.parameters(), 40)
    optimizer_policy.step()
    return value_loss, policy_loss


def rollout(policy, n, horizon=10):
    states, actions, rewards, masks = [], [], [], []
    x = torch.randn(1)
    with torch.no_grad():
        for t in range(n):
            s = torch.cat([x, x.sign()])
            a = policy(s.unsqueeze(0)).sample().squeeze(0)
            states.append(s)
            actions.append(a)
            rewards.append(-(a - x).pow(2))
            masks.append(torch.tensor([0.0 if t % horizon == horizon - 1 else 1.0]))
            x = torch.randn(1)
    return (torch.stack(v) for v in (states, actions, rewards, masks))


if __name__ == "__main__":
    torch.manual_seed(0)
    policy, value = Policy(2, 1), Value(2)
    opt_p = torch.optim.Adam(policy.parameters(), lr=5e-3)
    opt_v = torch.optim.Adam(value.parameters(), lr=1e-2)
    for it in range(9):
        states, actions, rewards, masks = rollout(policy, 128)
        with torch.no_grad():
            values, old_log_probs = value(states), policy.get_log_prob(states, actions)
        advantages, returns = estimate_advantages(rewards, masks, values, 0.5, 0.95)
        for _ in range(4):
            v_loss, p_loss = ppo_step(policy, value, opt_p, opt_v, 2, states, actions, returns, advantages,
                                      old_log_probs, 0.2, 1e-4)
        if it % 4 == 0:
            print("iter %d reward %.3f value %.3f policy %.4f" % (it, rewards.mean(), v_loss, p_loss))
