"""Validation over ranks with uneven shares: counts are summed, predictions are gathered as padded tensors."""
# launch: torchrun --standalone --nproc-per-node=2 {file}
import torch
import torch.distributed as dist
from torch import nn


def share(n, rank, world):
    """Indices of this rank without repetition; the first ranks may have one more."""
    return torch.arange(rank, n, world)


def gather_rows(rows):
    """Concatenate along the first axis tensors whose lengths differ between ranks."""
    world = dist.get_world_size()
    size = torch.tensor([rows.size(0)], device=rows.device)
    sizes = [torch.zeros_like(size) for _ in range(world)]
    dist.all_gather(sizes, size)
    longest = int(torch.cat(sizes).max())
    padded = rows.new_zeros(longest, *rows.shape[1:])
    padded[: rows.size(0)] = rows
    parts = [torch.empty_like(padded) for _ in range(world)]
    dist.all_gather(parts, padded)
    return torch.cat([p[: int(s)] for p, s in zip(parts, sizes)])


@torch.no_grad()
def validate(model, x, y, device):
    rank, world = dist.get_rank(), dist.get_world_size()
    mine = share(len(x), rank, world)
    model.eval()
    logits = model(x[mine].to(device))
    target = y[mine].to(device)
    sums = torch.stack([
        nn.functional.cross_entropy(logits, target, reduction="sum"),
        (logits.argmax(1) == target).sum().float(),
        torch.tensor(float(len(mine)), device=device),
    ])
    dist.all_reduce(sums)
    everything = gather_rows(torch.cat([mine.to(device).unsqueeze(1), logits.argmax(1, keepdim=True)], dim=1))
    order = everything[:, 0].argsort()
    return (sums[0] / sums[2]).item(), (sums[1] / sums[2]).item(), everything[order, 1]


def main():
    device = torch.device("cpu")
    dist.init_process_group("gloo")
    torch.manual_seed(0)  # the same weights and data on every rank
    model = nn.Linear(5, 3).to(device)
    x = torch.randn(101, 5)
    y = x[:, :3].argmax(1)
    loss, accuracy, predictions = validate(model, x, y, device)
    with torch.no_grad():
        alone = model(x.to(device))
    torch.testing.assert_close(nn.functional.cross_entropy(alone, y.to(device)).item(), loss)
    assert torch.equal(alone.argmax(1), predictions)
    if dist.get_rank() == 0:
        print(f"loss {loss:.4f}, accuracy {accuracy:.3f}, gathered {len(predictions)} predictions")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
