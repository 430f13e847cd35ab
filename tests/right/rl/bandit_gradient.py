"""A contextual bandit: policy gradient with a leave-one-out baseline over several samples per context."""
import torch
import torch.nn as nn

torch.manual_seed(10)
device = "cuda" if torch.cuda.is_available() else "cpu"

ARMS, CTX, SAMPLES = 5, 6, 4
arm_vectors = torch.randn(ARMS, CTX, device=device)


def pull(context, arms):
    """Reward of `arms` (S, B) in `context` (B, CTX)."""
    mean = (arm_vectors[arms] * context).sum(dim=-1)
    return mean + 0.1 * torch.randn_like(mean)


def best_possible(context):
    return (context @ arm_vectors.T).max(dim=1).values


policy = nn.Linear(CTX, ARMS, bias=False).to(device)
nn.init.zeros_(policy.weight)
opt = torch.optim.Adam(policy.parameters(), lr=5e-2)

for step in range(200):
    context = torch.randn(32, CTX, device=device)
    dist = torch.distributions.Categorical(logits=policy(context))
    arms = dist.sample((SAMPLES,))
    reward = pull(context, arms)
    baseline = (reward.sum(dim=0, keepdim=True) - reward) / (SAMPLES - 1)
    loss = -((reward - baseline) * dist.log_prob(arms)).mean() - 0.01 * dist.entropy().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        regret = (best_possible(context) - reward.mean(0)).mean()
        print(f"step {step}: regret {regret.item():.3f}")

with torch.no_grad():
    context = torch.randn(500, CTX, device=device)
    greedy = policy(context).argmax(dim=-1)
    regret = best_possible(context) - (arm_vectors[greedy] * context).sum(dim=-1)
    print(f"greedy regret {regret.mean().item():.4f}")
