"""Subcommands train and evaluate that share a checkpoint; without a subcommand both run in a temporary folder."""
import argparse
import tempfile
from pathlib import Path

import torch
from torch import nn


def device_of(args) -> torch.device:
    if args.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(args.device)


def make_data(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(n, 2, generator=g) * 2 - 1
    return x, (x[:, 0] * x[:, 1] > 0).long()


def new_model(width):
    return nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 2))


def cmd_train(args):
    torch.manual_seed(args.seed)
    device = device_of(args)
    model = new_model(args.width).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-2)
    x, y = (t.to(device) for t in make_data(256, seed=args.seed))
    for _ in range(args.steps):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
    torch.save({"width": args.width, "model": model.state_dict()}, args.checkpoint)
    print(f"saved after {args.steps} steps, loss {loss.item():.3f}")


@torch.inference_mode()
def cmd_evaluate(args):
    device = device_of(args)
    state = torch.load(args.checkpoint, map_location=device, weights_only=True)
    model = new_model(state["width"]).to(device)
    model.load_state_dict(state["model"])
    model.eval()
    x, y = (t.to(device) for t in make_data(500, seed=args.seed + 1))
    print(f"accuracy {(model(x).argmax(dim=1) == y).float().mean().item():.3f}")


def build_parser():
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--checkpoint", type=Path, default=Path("model.pt"))
    common.add_argument("--device", default="auto")
    common.add_argument("--seed", type=int, default=0)
    parser = argparse.ArgumentParser()
    sub = parser.add_subparsers(dest="command")
    t = sub.add_parser("train", parents=[common])
    t.add_argument("--steps", type=int, default=150)
    t.add_argument("--width", type=int, default=16)
    t.set_defaults(run=cmd_train)
    e = sub.add_parser("evaluate", parents=[common])
    e.set_defaults(run=cmd_evaluate)
    return parser


def main(argv=None):
    parser = build_parser()
    args = parser.parse_args(argv)
    if args.command is not None:
        args.run(args)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.pt")
        for command in ("train", "evaluate"):
            inner = parser.parse_args([command, "--checkpoint", path])
            inner.run(inner)


if __name__ == "__main__":
    main()
