"""An ensemble trained at once: stacked parameters, vmap over members, one optimizer."""
import copy

import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap

MEMBERS = 5
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def build():
    return nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 1))


def noisy_curve(n):
    x = torch.rand(n, 1, device=device) * 4 - 2
    return x, torch.sin(2 * x) + 0.1 * torch.randn_like(x)


def main():
    torch.manual_seed(0)
    models = [build().to(device) for _ in range(MEMBERS)]
    params, buffers = stack_module_state(models)
    skeleton = copy.deepcopy(models[0]).to("meta")

    def one(p, b, x):
        return functional_call(skeleton, (p, b), (x,))

    on_shared = vmap(one, in_dims=(0, 0, None))
    on_own = vmap(one, in_dims=(0, 0, 0))
    opt = torch.optim.Adam(params.values(), lr=1e-2)
    x_train, y_train = noisy_curve(64)
    for step in range(120):
        pick = torch.randint(64, (MEMBERS, 64), device=device)  # every member has its bootstrap sample
        pred = on_own(params, buffers, x_train[pick])
        # a sum over members keeps each member's gradient what it would be alone
        loss = (pred - y_train[pick]).square().mean(dim=(1, 2)).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 40 == 0:
            print(f"step {step}: mean member loss {loss.item() / MEMBERS:.3f}")

    with torch.no_grad():
        grid = torch.tensor([[0.5], [4.0]], device=device)
        spread = on_shared(params, buffers, grid).std(dim=0).squeeze(1)
    inside, outside = spread.tolist()
    print(f"spread inside the data {inside:.3f}, outside {outside:.3f}")


if __name__ == "__main__":
    main()
