"""Weight decay for matrices only: biases and norm gains stand in a group of their own."""
import torch
from torch import nn


def split_decay(model: nn.Module, weight_decay: float):
    decay, no_decay = [], []
    for _name, param in model.named_parameters():
        if not param.requires_grad:
            continue
        (decay if param.ndim >= 2 else no_decay).append(param)
    return [{"params": decay, "weight_decay": weight_decay}, {"params": no_decay, "weight_decay": 0.0}]


def init_weights(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        nn.init.zeros_(module.bias)
    elif isinstance(module, nn.LayerNorm):
        nn.init.ones_(module.weight)
        nn.init.constant_(module.bias, 0.0)


def build(width: int) -> nn.Sequential:
    net = nn.Sequential(
        nn.Linear(10, width), nn.LayerNorm(width), nn.ReLU(),
        nn.Linear(width, width), nn.LayerNorm(width), nn.ReLU(),
        nn.Linear(width, 1),
    )
    return net.apply(init_weights)


def count(params) -> int:
    return sum(p.numel() for p in params)


if __name__ == "__main__":
    torch.manual_seed(0)
    DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
    net = build(24).to(DEVICE)
    groups = split_decay(net, 0.05)
    assert count(groups[0]["params"]) + count(groups[1]["params"]) == count(net.parameters())
    optimizer = torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95))
    sched = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.995)
    huber = nn.HuberLoss(delta=1.0)

    for i in range(120):
        x = torch.randn(64, 10, device=DEVICE)
        t = torch.cos(x).mean(dim=1, keepdim=True)
        optimizer.zero_grad(set_to_none=True)
        loss = huber(net(x), t)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        sched.step()
        if i % 40 == 0:
            print(f"{i}: loss {loss.item():.4f} grad norm {norm.item():.3f} lr {sched.get_last_lr()[0]:.5f}")
