"""Collect activation statistics through forward hooks that are removed again."""
from contextlib import contextmanager

import torch
import torch.nn as nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@contextmanager
def capture(model, kinds=(nn.ReLU,)):
    """Yield a dict of detached activations by module name; hooks are removed even after an error."""
    store = {}
    handles = []

    def keep(name):
        def hook(_module, _inputs, output):
            store[name] = output.detach()

        return hook

    for name, module in model.named_modules():
        if isinstance(module, kinds):
            handles.append(module.register_forward_hook(keep(name)))
    try:
        yield store
    finally:
        for handle in handles:
            handle.remove()


def dead_fraction(activation):
    return (activation <= 0).all(dim=0).float().mean().item()


def main():
    torch.manual_seed(6)
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3)).to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    probe = torch.randn(128, 8, device=device)

    def report(tag):
        with torch.no_grad(), capture(net) as acts:
            net(probe)
            line = ", ".join(f"{k}: mean {v.mean().item():.3f} dead {dead_fraction(v):.2f}" for k, v in acts.items())
        print(tag, line)

    report("before")
    for _ in range(80):
        x = torch.randn(64, 8, device=device)
        y = x[:, :3].argmax(dim=1)
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    report("after")
    assert all(len(m._forward_hooks) == 0 for m in net.modules())


if __name__ == "__main__":
    main()
