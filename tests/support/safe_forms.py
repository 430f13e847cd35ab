"""Programs in many forms for the rules whose fixes are safe: each leaves ``outputs``, and ``leaves`` with gradients.

A form is a text with ``{slots}``, each with the ways to write it; all of their combinations are programs.
"""

# ruff: noqa: E501
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

PRELUDE = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\ntorch.manual_seed(0)\n"
X = "x = torch.randn(3, 4, requires_grad=True)\nleaves = [x]\n"
P = "x = torch.rand(3, 4).round().requires_grad_()\nleaves = [x]\n"
SIMPLE = ("x", "x + 1", "-x", "x[0:2]", "(x * 2)")

Form = tuple[str, Mapping[str, Sequence[str]]]

FORMS: dict[str, tuple[Form, ...]] = {
    "DG101": (
        (
            "w = torch.rand(3, requires_grad=True)\nleaves = [w]\ny = {maker}\n{write}\nz = y.log().sum()\nz.backward()\noutputs = [z.detach(), w.grad]\nleaves = []\n",
            {
                "maker": ("w.sigmoid()", "(w * w).exp()", "w + 1"),
                "write": (
                    "y.clamp_(min=0.2)", "y += 1", "y *= 2 + 1", "y[0] = 0.5", "y.mul_(w.detach()).add_(1)",
                    "y = y.add_(1)", "F.relu(y, inplace=True)", "y.exp_()", "y /= y.detach() if y.dim() else 2",
                ),
            },
        ),
    ),
    "DG102": (
        (
            "w = torch.rand(3, requires_grad=True)\nleaves = []\n(w * w).sum().backward()\n{write}\noutputs = [w.detach()]\n",
            {"write": ("w -= 0.1 * w.grad", "w[0] = 1.0", "w.clamp_(min=0.5)", "w.mul_(\n    2,\n)", "w.fill_(1)  # all")},
        ),
    ),
    "DG107": (
        (
            "import numpy as np\nw = torch.rand(3, requires_grad=True)\nleaves = []\na = {read}\noutputs = [a.tolist()]\n",
            {"read": ("w.numpy()", "(w * 2).cpu().numpy()", "np.array(w * 2)", "np.asarray(w)", "w.exp()[1:].numpy()",
                      "(w.detach() + 1).numpy()")},
        ),
    ),
    "DG118": (
        (
            "w = torch.randn(3, requires_grad=True)\nleaves = [w]\nx = {made}\nx.pow(2).sum().backward()\n"
            "outputs = [] if x.grad is None else [x.grad]\nstep = x.detach() - 0.1 * x.grad\n",
            {"made": ("w * 0.1", "(w.exp() * 0.1)", "w.view(3, 1)")},
        ),
    ),
    "DG201": (
        (
            "leaves = []\nmodel = nn.Linear(3, 2).cuda()\nx = torch.randn(4, 3)\noutputs = [model({x}).cpu()]\n",
            {"x": ("torch.ones(4, 3)", "x", "x + 1", "x[:2]", "x.exp()")},
        ),
    ),
    "DG205": (
        (
            "leaves = []\nx = torch.ones(3, device='cuda')\ny = torch.arange(3.0)\noutputs = [{made}]\n",
            {"made": ("x + y", "y * x", "torch.cat([x, y])", "x + (y - 1)", "torch.where(x > 0, x, y)", "x @ y")},
        ),
        (
            "leaves = []\nx = torch.ones(3, device='cuda')\ny = torch.zeros(3)\n{write}\noutputs = [y.cpu()]\n",
            {"write": ("y.add_(x)", "y.lerp_(x, 0.5)", "y.copy_(x).mul_(2)", "y.mul_(x + 1)", "y.view(3, 1).add_(x[:, None])")},
        ),
    ),
    "DG207": (
        (
            "import numpy as np\nleaves = []\nx = torch.ones(3, device='cuda')\na = {read}\noutputs = [a.tolist()]\n",
            {"read": ("x.numpy()", "(x * 2).numpy()", "np.asarray(x + 1)", "x[1:].numpy()", "np.array(x)")},
        ),
    ),
    "DG209": (
        (
            "leaves = []\nfor i in range(2):\n    y = {made}\noutputs = [y.cpu()]\n",
            {"made": ("torch.zeros(3).cuda()", "torch.arange(3).to('cuda')", "torch.full((2,), 3).cuda()",
                      "torch.tensor([1, 2]).to(device='cuda')", "torch.eye(2).cuda(0)", "torch.ones(2).to('cuda', torch.half)")},
        ),
    ),
    "DG214": (
        (
            "class Padded(nn.Module):\n    def forward(self, x: torch.Tensor, width: int):\n        result = {made}\n"
            "        {write}\n        return result\n\n"
            "x = torch.rand(2, 3, device='cuda').requires_grad_()\nleaves = [x]\noutputs = [made.cpu() for made in map(Padded(), [x], [5])]\n",
            {
                "made": ("torch.zeros(x.size(0), width)", "torch.ones((len(x), width))", "torch.full([x.shape[0], width], -1.0)",
                         "torch.zeros(x.size(0), width, dtype=torch.float64)", "torch.zeros(x.size(0), x.size(1) + 2)"),
                "write": ("result[:, : x.size(1)] = x", "result[:, :3] = x * 2", "result[0, :2] = x[1, 1:]"),
            },
        ),
    ),
    "DG312": (
        (
            "x = {x}\nleaves = [x]\noutputs = [{soft}]\n",
            {
                "x": [f"torch.randn({s}, requires_grad=True)" for s in ("5", "3, 4", "2, 3, 4", "2, 3, 4, 5")],
                "soft": ("F.softmax(x)", "F.log_softmax(x)", "nn.Softmax()(x)", "F.softmin(x)", "F.softmax(x, None)",
                         "nn.LogSoftmax(dim=None)(x)", "F.softmax(x * 2, dtype=torch.float64)"),
            },
        ),
    ),
    "DG403": (
        (
            X + "outputs = [{log}]\n",
            {"log": [text.format(x) for x in ("x", "x + 1", "x[:2]") for text in (
                "torch.log(F.softmax({}, dim=1))", "({}).softmax(-1).log()", "torch.log(torch.softmax({}, 0))",
                "nn.Softmax(dim=1)({}).log()", "torch.softmax({}, dim=1, dtype=torch.float64).log()",
                "torch.log(F.softmax(input={}, dim=0)) * 2", "-torch.log(F.softmax({}, -1)[:, 0])")]},
        ),
        (X + "p = x.softmax(1)\nlogs = p.log()\noutputs = [logs, p]\n", {}),
    ),
    "DG404": (
        (
            X + "outputs = [{log}]\n",
            {"log": [text.format(x) for x in SIMPLE for text in (
                "torch.log(torch.sigmoid({}))", "({}).sigmoid().log()", "torch.log(1 - torch.sigmoid({}))",
                "-(1 - ({}).sigmoid()).log().mean()", "F.sigmoid({}).log()")]},
        ),
        ("x = torch.arange(3)\nleaves = []\noutputs = [{log}]\n",
         {"log": ("torch.log(torch.sigmoid(x))", "x.sigmoid().log()", "torch.log(1 - torch.sigmoid(x))")}),
    ),
    "DG405": (
        (
            X + "outputs = [{soft}]\n",
            {"soft": [text.format(x) for x in ("x", "(x + 1)", "x[:2]") for text in (
                "torch.exp({0}) / torch.exp({0}).sum(dim=-1, keepdim=True)", "{0}.exp() / {0}.exp().sum(1, keepdim=True)",
                "torch.exp({0}) / torch.sum(torch.exp({0}))", "torch.exp({0}) / torch.exp({0}).sum(0)",
                "torch.exp({0}) / torch.exp({0}).sum(dim=(0, 1))", "torch.exp({0}) / torch.exp({0}).sum()",
                "torch.exp({0}) / torch.exp({0}).sum(dim=0, keepdim=True)",
                "torch.exp({0}) / torch.sum(torch.exp({0}), dim=None, keepdim=True)")]},
        ),
        ("x = torch.randn(5, requires_grad=True)\nleaves = [x]\noutputs = [torch.exp(x) / torch.sum(torch.exp(x))]\n", {}),
    ),
    "DG406": (
        (
            P + "y = torch.where({condition}, {choice}, {other})\noutputs = [y]\n",
            {
                "condition": ("x > 0", "x != 0"),
                "choice": ("torch.log(x)", "x * x.log()", "1 / x", "x.sqrt()", "x.log() + 1", "torch.log(x + 0)"),
                "other": ("0.0", "torch.zeros_like(x)", "x"),
            },
        ),
    ),
    "DG409": (
        (
            "x = torch.randn(3, 4).half()\nmask = x > 0\nleaves = []\noutputs = [{fill}]\n",
            {"fill": ("x.masked_fill(mask, -1e9)", "x.masked_fill(mask, value=-1e9).softmax(-1)", "x.clamp(max=1e6)",
                      "torch.full((2, 2), -1e9, dtype=torch.float16)", "x.masked_fill(mask, -10.0)",
                      "x.masked_fill(mask == 0, 1e9)")},
        ),
    ),
    "DG414": (
        (
            X + "outputs = [{log}]\n",
            {"log": [text.format(x, dim) for x in ("x", "x * 3", "x[:2]") for dim in ("1", "-1", "(0, 1)", "[0, 1]", "None", "()")
                     for text in (
                "torch.log(torch.exp({0}).sum(dim={1}))", "torch.log(torch.exp({0}).sum({1}))",
                "torch.log(torch.sum(torch.exp({0}), dim={1}, keepdim=True))", "({0}).exp().sum({1}, keepdim=True).log()",
                "torch.log(torch.sum(torch.exp({0}), {1}))", "torch.log(({0}).exp().sum({1}, True))",
                "torch.log(torch.exp({0}).sum(dim={1}, dtype=torch.float64))")]},
        ),
        (X + "def f(x, dim=None):\n    return torch.log(torch.exp(x).sum(dim=dim))\noutputs = [f(x), f(x, {dim})]\n",
         {"dim": ("0", "(0, 1)")}),
        (X + "outputs = [{log}]\n",
         {"log": [text.format(x) for x in SIMPLE for text in (
             "torch.log(1 + torch.exp({}))", "torch.log1p(torch.exp({}))", "(({}).exp() + 1).log()", "(1.0 + ({}).exp()).log()",
             "torch.log(torch.exp({}).sum())")]}),
        ("x = torch.arange(3)\nleaves = []\noutputs = [{log}]\n",
         {"log": ("torch.log(1 + torch.exp(x))", "torch.log1p(x.exp())", "torch.log(torch.exp(x).sum(0))")}),
    ),
    "DG501": (
        (
            "model = nn.Linear(4, 1)\nleaves = []\nlosses = []\nopt = torch.optim.SGD(model.parameters(), 0.1)\n"
            "for x in torch.randn(5, 4):\n    loss = model(x).pow(2).mean()\n    opt.zero_grad()\n    loss.backward()\n"
            "    opt.step()\n    {keep}\noutputs = [torch.stack([*map(torch.as_tensor, losses)]).detach(), model.weight.detach()]\n",
            {"keep": ("losses.append(loss)", "losses.append(loss + 1)", "losses += [loss]", "losses.extend([loss])",
                      "losses.append(loss / 2 if loss > 0 else loss)", "losses.append(-loss)")},
        ),
    ),
    "DG502": (
        (
            "model = nn.Linear(4, 1)\nleaves = []\ntotal = 0.0\nopt = torch.optim.SGD(model.parameters(), 0.1)\n"
            "for x in torch.randn(5, 4):\n    loss = model(x).pow(2).mean()\n    opt.zero_grad()\n    loss.backward()\n"
            "    opt.step()\n    {keep}\nprint(total / 5)\noutputs = [total.detach(), model.weight.detach()]\n",
            {"keep": ("total += loss", "total = total + loss", "total += loss * 2", "total = 0.9 * total + 0.1 * loss",
                      "total += loss if loss > 0 else -loss", "total = loss + total")},
        ),
    ),
    "DG505": (
        (
            "leaves = []\nmodel = nn.Linear(4, 1).cuda()\nopt = torch.optim.SGD(model.parameters(), 0.1)\n"
            "for x in torch.randn(3, 2, 4):\n    opt.zero_grad()\n    loss = model(x.cuda()).mean()\n    loss.backward()\n"
            "    opt.step()\n    {call}\noutputs = [model.weight.detach().cpu()]\n",
            {"call": ("torch.cuda.empty_cache()", "torch.cuda.empty_cache()  # room")},
        ),
    ),
    "DG511": (
        (
            "leaves = []\nencoder = nn.Linear(4, 4)\nkept = []\nwith torch.no_grad():\n"
            "    for x in torch.randn(3, 2, 5, 4):\n        hidden = encoder(x)\n        kept.append({part})\noutputs = kept\n",
            {"part": ("hidden[:, 0]", "hidden[0]", "hidden.select(1, 0)", "hidden[..., :1]")},
        ),
    ),
    "DG602": (
        (
            "leaves = []\nmodel = nn.Linear(4, 1).cuda()\nopt = torch.optim.SGD(model.parameters(), 0.1)\n"
            "for x in torch.randn(3, 2, 4):\n    opt.zero_grad()\n    loss = model(x.cuda()).mean()\n    loss.backward()\n"
            "    torch.cuda.synchronize()\n    opt.step()\noutputs = [model.weight.detach().cpu()]\n",
            {},
        ),
    ),
    "DG605": (
        (
            "leaves = []\nx = torch.ones(3, device='cuda')\ny = x.to({to})\noutputs = [y.tolist()]\n",
            {"to": ("'cpu', non_blocking=True", "non_blocking=True, device='cpu'", "'cpu', torch.half, non_blocking=True")},
        ),
    ),
    "DG606": (
        (
            "leaves = []\nnet = nn.Linear(4, 1)\nnet = net.to('cuda')\nopt = torch.optim.SGD(net.parameters(), 0.1)\n"
            "for x in torch.utils.data.DataLoader(torch.ones(8, 4)):\n    {move}\n    loss = net(x.cuda()).mean()\n"
            "    loss.backward()\n    opt.step()\noutputs = [net.weight.detach().cpu()]\n",
            {"move": ("net = net.to('cuda')", "net.cuda()", "net.to('cuda')")},
        ),
    ),
    "DG609": (
        (
            "import numpy as np\nleaves = []\ndef batch(n):\n"
            "    frames = [np.zeros({shape}, dtype={dtype}) + i for i in range(n)]\n    return {made}\noutputs = [batch(3)]\n",
            {
                "shape": ("4", "(2, 3)"),
                "dtype": ("np.float32", "np.int64"),
                "made": ("torch.tensor(frames)", "torch.tensor(frames, dtype=torch.float64)", "torch.FloatTensor(frames)"),
            },
        ),
        (
            "import numpy as np\nleaves = []\ndef batch(n):\n"
            "    frames = [np.zeros({shape}, dtype=np.float32) for _ in range(n)]\n    return {made}\noutputs = [batch(3)]\n",
            {"shape": ("4", "(2, 3)"), "made": ("torch.tensor(frames)", "torch.as_tensor(frames)")},
        ),
    ),
    "DG748": (
        (
            X + "y = torch.rand(3, 4)\nloss = {call}\noutputs = [loss]\n",
            {"call": ("nn.MSELoss(x, y)", "nn.L1Loss(x.exp(), y, reduction='sum')", "nn.BCEWithLogitsLoss(x, y)",
                      "nn.SmoothL1Loss(x, y, beta=0.5)", "nn.CrossEntropyLoss(x, y, label_smoothing=0.1)")},
        ),
    ),
    "DG801": (
        (
            "leaves = []\nmodel = nn.Linear(4, 2)\nscaler = {scaler}\nwith {cast}:\n    y = model(torch.ones(3, 4))\n"
            "outputs = [y.float(), scaler.is_enabled()]\n",
            {"scaler": ("torch.cuda.amp.GradScaler()", "torch.cuda.amp.GradScaler(enabled=False)",
                        "torch.cuda.amp.GradScaler(1024.0, 2.0)"),
             "cast": ("torch.cuda.amp.autocast()", "torch.cuda.amp.autocast(enabled=False)",
                      "torch.cuda.amp.autocast(dtype=torch.bfloat16)", "torch.cuda.amp.autocast(True, torch.bfloat16)",
                      "torch.cpu.amp.autocast()", "torch.cpu.amp.autocast(True)")},
        ),
    ),
}  # fmt: skip

ELSEWHERE = {
    "DG203": "what raises in it is a module on another device: as DG205",
    "DG204": "the module works as before: a buffer is an attribute",
    "DG320": "found only where the size of the batch is not known, so not in a program that runs by itself",
    "DG506": "a decorator without which nothing that is returned would differ",
    "DG711": "runs only where memory was short",
    "DG740": "the constructor raises before",
    "DG904": "a comment",
}
"""Rules with safe fixes that have no form here, and why."""


def programs(code: str) -> Iterator[str]:
    """Yield all programs of a rule."""
    for text, slots in FORMS[code]:
        for ways in product(*slots.values()):
            program = text
            for slot, way in zip(slots, ways, strict=True):
                program = program.replace(f"{{{slot}}}", way)
            yield PRELUDE + program
