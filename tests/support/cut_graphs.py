"""Training steps whose loss may have left its graph, and what torch says of their backward."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from textwrap import dedent, indent
from typing import Any, Literal

import torch

Outcome = Literal["learns", "cut", "raises"]
"""``cut``: nothing raises, but no parameter gets a gradient; ``raises``: backward, or the way to it, fails."""

_FORMS = {
    "script": """
        import torch
        import torch.nn as nn
        import torch.nn.functional as F
        net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        x, y = torch.randn(3, 4), torch.randn(3, 2)
        {step}
    """,
    "function": """
        import torch
        import torch.nn as nn
        import torch.nn.functional as F
        {decorator}
        def train(net, opt, x, y):
            {step}

        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        train(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(3, 4), torch.randn(3, 2))
        net = model
    """,
    "unknown": """
        import torch
        import torch.nn.functional as F
        {decorator}
        def train(net, opt, x, y):
            {step}

        START = train
    """,
    "method": """
        import torch
        import torch.nn as nn
        import torch.nn.functional as F

        class Trainer:
            def __init__(self):
                self.net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
                self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)

            {decorator}
            def step(self, x, y):
                net, opt = self.net, self.opt
                {step}

        trainer = Trainer()
        trainer.step(torch.randn(3, 4), torch.randn(3, 2))
        net = trainer.net
    """,
    "criterion": """
        import torch
        {decorator}
        def train(net, opt, crit, x, y):
            {step}

        START = train
    """,
}
_STEP = "opt.zero_grad()\n{forward}\n{loss}\n{backward}\nopt.step()"
_FORWARDS = {"plain": "out = net(x)", "flat": "out = net(x).flatten(1)"}
_LOSSES = {
    "mse": "loss = F.mse_loss(out, y)",
    "hand": "loss = ((out - y) ** 2).mean()",
    "sum": "loss = 0.5 * F.mse_loss(out, y) + 0.1 * out.abs().mean()",
}
CUTS = {
    "none": "",
    "detached": "loss = loss.detach()",
    "data": "loss = loss.data",
    "item": "loss = loss.item()",
    "float": "loss = float(loss)",
    "tensor": "loss = torch.tensor(loss)",
    "floats": "loss = torch.FloatTensor([loss])",
    "listed": "loss = torch.tensor([loss, 2 * loss]).mean()",
    "asked": "loss = torch.tensor(loss.item(), requires_grad=True)",
    "copied": "loss = torch.tensor([loss, loss], requires_grad=True).sum()",
    "leaf": "loss = loss.detach().requires_grad_()",
    "numpy": "loss = torch.from_numpy(out.detach().numpy() - y.numpy()).pow(2).mean()",
    "argmax": "loss = (out.argmax(1) != y.argmax(1)).float().mean()",
    "compared": "loss = 1 - (out > y).float().mean()",
    "cloned": "loss = loss.clone()",
    "kept": "value = loss.item()\nloss = loss * 1.0",
}
MODES = {
    "on": "{step}",
    "block": "with torch.no_grad():\n    {step}",
    "inference": "with torch.inference_mode():\n    {step}",
    "set": "with torch.set_grad_enabled(False):\n    {step}",
    "called": "torch.set_grad_enabled(False)\n{step}",
    "decorator": "@torch.no_grad()",
    "bare": "@torch.no_grad",
    "decorated": "@torch.inference_mode()",
    "forward": "with torch.no_grad():\n    {forward}",
    "enabled": "with torch.no_grad():\n    with torch.enable_grad():\n        {step}",
    "teacher": "with torch.no_grad():\n    soft = net(x)\n{step}",
}


@dataclass(frozen=True)
class Program:
    """A program, by what it is made of."""

    form: str
    forward: str
    loss: str
    cut: str
    mode: str

    @property
    def text(self) -> str:
        """The program itself."""
        mode, forward, loss = MODES[self.mode], _FORWARDS[self.forward], _LOSSES[self.loss]
        if self.form == "criterion":
            loss = "loss = crit(out, y)"
        if self.mode == "forward":
            forward = mode.replace("{forward}", forward)
        loss = f"{loss}\n{CUTS[self.cut]}".strip()
        step = _STEP.format(forward=forward, loss=loss, backward="loss.backward()")
        if "{step}" in mode:
            step = _put(mode, "step", step)
        decorator = mode if mode.startswith("@") else ""
        return _put(_put(dedent(_FORMS[self.form]).strip(), "step", step), "decorator", decorator) + "\n"


def programs() -> Iterator[Program]:
    """Yield every combination."""
    for parts in product(_FORMS, _FORWARDS, _LOSSES, CUTS, MODES):
        program = Program(*parts)
        if program.form != "script" or not MODES[program.mode].startswith("@"):
            yield program


def _put(text: str, name: str, part: str) -> str:
    """Put lines where a line says ``{name}``, with its indentation; an empty part takes the line away."""
    lines: list[str] = []
    for line in text.split("\n"):
        if line.strip() != f"{{{name}}}":
            lines.append(line)
        elif part:
            lines.append(indent(part, line[: len(line) - len(line.lstrip())]))
    return "\n".join(lines)


def what_happens(text: str) -> Outcome:
    """Run a program, and say what comes of its backward."""
    names: dict[str, Any] = {"__name__": "program"}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(text, "program", "exec"), names)
            if "START" in names:
                net = names["net"] = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
                given: list[Any] = [net, torch.optim.SGD(net.parameters(), lr=0.1)]
                if "crit" in text:
                    given.append(torch.nn.MSELoss())
                names["START"](*given, torch.randn(3, 4), torch.randn(3, 2))
    except (RuntimeError, AttributeError):
        return "raises"
    finally:
        torch.set_grad_enabled(True)
    return "learns" if any(p.grad is not None for p in names["net"].parameters()) else "cut"
