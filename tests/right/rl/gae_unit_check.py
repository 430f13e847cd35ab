"""Generalized advantage estimation by a backward scan, checked against the explicit sum."""
import torch


def gae_scan(rewards, values, next_values, terminated, ended, gamma, lam):
    """All of shape (T, B). `terminated`: no bootstrap; `ended`: the trace stops (termination or time-out)."""
    adv = torch.zeros_like(rewards)
    carry = rewards.new_zeros(rewards.shape[1:])
    delta = rewards + gamma * next_values * (~terminated) - values
    for t in range(rewards.shape[0] - 1, -1, -1):
        carry = delta[t] + gamma * lam * carry * (~ended[t])
        adv[t] = carry
    return adv


def gae_explicit(rewards, values, next_values, terminated, ended, gamma, lam):
    T, B = rewards.shape
    adv = torch.zeros_like(rewards)
    for b in range(B):
        for t in range(T):
            total, factor = 0.0, 1.0
            for k in range(t, T):
                bootstrap = 0.0 if terminated[k, b] else next_values[k, b]
                total = total + factor * (rewards[k, b] + gamma * bootstrap - values[k, b])
                if ended[k, b]:
                    break
                factor *= gamma * lam
            adv[t, b] = total
    return adv


def normalize(x, eps=1e-8):
    return (x - x.mean()) / (x.std() + eps)


def explained_variance(pred, target):
    var = target.var()
    return 1 - (target - pred).var() / var.clamp_min(1e-8)


if __name__ == "__main__":
    gen = torch.Generator().manual_seed(0)
    T, B = 12, 3
    rewards = torch.randn(T, B, generator=gen, dtype=torch.float64)
    values = torch.randn(T, B, generator=gen, dtype=torch.float64)
    next_values = torch.randn(T, B, generator=gen, dtype=torch.float64)
    terminated = torch.rand(T, B, generator=gen) < 0.15
    timed_out = torch.rand(T, B, generator=gen) < 0.1
    ended = terminated | timed_out

    for gamma, lam in [(0.99, 0.95), (0.9, 0.0), (1.0, 1.0)]:
        fast = gae_scan(rewards, values, next_values, terminated, ended, gamma, lam)
        slow = gae_explicit(rewards, values, next_values, terminated, ended, gamma, lam)
        torch.testing.assert_close(fast, slow)
        returns = fast + values
        print(f"gamma {gamma} lambda {lam}: explained variance {explained_variance(values, returns):.3f}")
    z = normalize(fast)
    print(f"normalized mean {z.mean():.1e} std {z.std():.3f}")
