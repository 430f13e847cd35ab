"""Training programs that keep what their steps compute, and what torch says of the graphs they keep."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from itertools import product
from textwrap import dedent, indent
from typing import Any, Literal
from weakref import WeakSet

import torch
from torch.overrides import TorchFunctionMode

Kept = Literal["nothing", "nodes", "graphs", "raises"]
"""What grows from step to step: nothing, a graph's nodes (backward has freed the rest), or all that a graph saves."""
STEPS = 12

_FORMS = {
    "script": """
        import torch
        import torch.nn as nn
        import torch.nn.functional as F
        from collections import defaultdict, deque

        net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        {make}
        for i, (x, y) in enumerate(batches):
            opt.zero_grad()
            out = net(x)
            loss = F.mse_loss(out, y)
        {body}
        {show}
    """,
    "function": """
        import torch
        import torch.nn as nn
        from collections import defaultdict, deque

        def train(net, crit, opt, batches):
        {make4}
            for i, (x, y) in enumerate(batches):
                opt.zero_grad()
                out = net(x)
                loss = crit(out, y)
        {body4}
        {show4}

        net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        train(net, nn.MSELoss(), torch.optim.SGD(net.parameters(), lr=0.1), batches)
    """,
    "unknown": """
        import torch
        from collections import defaultdict, deque

        def fit(network, objective, opt, batches):
        {make4}
            network.train()
            for i, (x, y) in enumerate(batches):
                opt.zero_grad()
                out = network(x)
                loss = objective(out, y)
        {body4}
        {show4}

        START = fit
    """,
    "helper": """
        import torch
        import torch.nn as nn
        import torch.nn.functional as F
        from collections import defaultdict, deque

        def compute(model, x, y):
            out = model(x)
            return out, ((out - y) ** 2).mean()

        def main(batches):
            net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
        {make4}
            for i, (x, y) in enumerate(batches):
                opt.zero_grad()
                out, loss = compute(net, x, y)
        {body4}
        {show4}

        main(batches)
    """,
    "methods": """
        import torch
        import torch.nn as nn
        import torch.nn.functional as F
        from collections import defaultdict, deque

        class Fitter:
            def __init__(self):
                self.net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
                self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
        {make8}

            def step(self, i, x, y):
                opt = self.opt
                opt.zero_grad()
                out = self.net(x)
                loss = F.mse_loss(out, y)
        {body8}

            def fit(self, batches):
                for i, (x, y) in enumerate(batches):
                    self.step(i, x, y)
        {show8}

        Fitter().fit(batches)
    """,
}
OWNERS: dict[str, tuple[str, str, str]] = {
    "append": ("kept = []", "kept.append({v})", "print(len(kept), [float(k.mean()) for k in kept])"),
    "insert": ("kept = []", "kept.insert(0, {v})", "print(len(kept))"),
    "extend": ("kept = list()", "kept.extend([{v}])", "print(len(kept))"),
    "plus": ("kept = []", "kept += [{v}]", "print(len(kept))"),
    "concat": ("kept = []", "kept = kept + [{v}]", "print(len(kept))"),
    "star": ("kept = []", "kept = [*kept, {v}]", "print(len(kept))"),
    "pair": ("kept = []", "kept.append((i, {v}))", "print(len(kept))"),
    "record": ("kept = []", "kept.append(dict(step=i, value={v}))", "print(len(kept))"),
    "slot": ("kept = {{}}", "kept[i] = {v}", "print(len(kept))"),
    "entry": ("kept = {{'v': []}}", "kept['v'].append({v})", "print(len(kept['v']))"),
    "default": ("kept = defaultdict(list)", "kept['v'].append({v})", "print(len(kept['v']))"),
    "setdefault": ("kept = {{}}", "kept.setdefault('v', []).append({v})", "print(len(kept))"),
    "update": ("kept = {{}}", "kept.update({{i: {v}}})", "print(len(kept))"),
    "deque": ("kept = deque()", "kept.append({v})", "print(len(kept))"),
    "tensor": ("kept = torch.zeros(64)", "kept[i] = {v}.mean()", "print(kept.mean().item())"),
    "sum": ("kept = 0", "kept += {v}.mean()", "print(float(kept))"),
    "added": ("kept = 0", "kept = kept + {v}.mean()", "print(float(kept))"),
    "weighted": ("kept = 0", "kept += {v}.mean() * len(x)", "print(float(kept))"),
    "average": ("kept = torch.zeros(())", "kept = 0.9 * kept + 0.1 * {v}.mean()", "print(kept.item())"),
    "in_place": ("kept = torch.zeros(())", "kept.mul_(0.9).add_({v}.mean())", "print(kept.item())"),
    "lerp": ("kept = torch.zeros(())", "kept = torch.lerp(kept, {v}.mean(), 0.1)", "print(kept.item())"),
    "cat": ("kept = torch.zeros(1)", "kept = torch.cat([kept, {v}.reshape(-1)])", "print(kept.mean().item())"),
    # what keeps no more than the last few steps
    "last": ("kept = None", "kept = {v}", "print(float(kept.mean()))"),
    "fixed": ("kept = {{}}", "kept['v'] = {v}", "print(len(kept))"),
    "best": ("kept = torch.tensor(9.0)", "kept = {v}.mean() if {v}.mean() < kept else kept", "print(kept.item())"),
    "fresh": ("kept = []", "kept = []\nkept.append({v})", "print(len(kept))"),
    "cleared": ("kept = []", "kept.append({v})\nkept.clear()", "print(len(kept))"),
    "window": ("kept = []", "kept.append({v})\nkept = kept[-2:]", "print(len(kept))"),
    "bounded": ("kept = deque(maxlen=2)", "kept.append({v})", "print(len(kept))"),
}
VALUES = {
    "loss": "loss",
    "reduced": "loss.sum()",
    "scaled": "(loss * 2)",
    "renamed": "value",
    "output": "out",
    "mean": "out.mean()",
    "another": "((out - y) ** 2)",
    "moved": "loss.cpu()",
    "cloned": "loss.clone()",
    "detached": "loss.detach()",
    "data": "loss.data",
    "item": "torch.tensor(loss.item())",
    "index": "out.argmax(1).float()",
    "compared": "(out > 0).float()",
    "target": "y",
}
BACKWARDS = {
    "none": "value = loss\n{keep}",
    "before": "value = loss\nloss.backward()\nopt.step()\n{keep}",
    "after": "value = loss\n{keep}\nloss.backward()\nopt.step()",
    "scaled": "value = loss\n{keep}\n(loss / 2).backward()\nopt.step()",
    "switched_off": "loss.backward()\nopt.step()\nwith torch.no_grad():\n    value = loss * 1\n    {keep}",
}


@dataclass(frozen=True)
class Program:
    """A program, by what it is made of."""

    form: str
    owner: str
    value: str
    backward: str

    @property
    def text(self) -> str:
        """The program itself."""
        make, keep, show = OWNERS[self.owner]
        keep = keep.format(v=VALUES[self.value])
        within = "    " if self.backward == "switched_off" else ""
        body = BACKWARDS[self.backward].replace("{keep}", keep.replace("\n", f"\n{within}"))
        parts = {"make": make.format(), "body": body, "show": show}
        if self.form == "methods":
            parts = {name: part.replace("kept", "self.kept") for name, part in parts.items()}
        shifted = {f"{name}{n}": indent(part, " " * n) for name, part in parts.items() for n in (4, 8)}
        if self.form != "methods":
            shifted["body4"], parts["body"] = indent(body, " " * 8), indent(body, " " * 4)
        return _filled(_FORMS[self.form], {**parts, **shifted})


def programs() -> Iterator[Program]:
    """Yield every combination."""
    return (Program(*parts) for parts in product(_FORMS, OWNERS, VALUES, BACKWARDS))


def _filled(form: str, parts: dict[str, str]) -> str:
    lines = (
        parts[line.strip()[1:-1]] if line.strip().startswith("{") else line for line in dedent(form).strip().split("\n")
    )
    return "\n".join(lines) + "\n"


class _Token:
    """What stands for a tensor that a graph saves, or for a node of one, as long as it lives."""

    def __init__(self, tensor: torch.Tensor | None = None) -> None:
        self.tensor = tensor


class _Nodes(TorchFunctionMode):
    """Puts a token on the node of each result."""

    def __init__(self, alive: WeakSet[_Token]) -> None:
        super().__init__()
        self.alive = alive

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        node: Any = result.grad_fn if isinstance(result, torch.Tensor) else None
        if node is not None and "token" not in node.metadata:
            token = node.metadata["token"] = _Token()
            self.alive.add(token)
        return result


def what_is_kept(text: str) -> Kept:
    """Run a program, and say what of its graphs grows from step to step."""
    saved, nodes = WeakSet[_Token](), WeakSet[_Token]()
    counts: list[tuple[int, int]] = []

    def pack(tensor: torch.Tensor) -> _Token:
        token = _Token(tensor.detach())  # the tensor itself may be a result, whose graph would hold itself
        if tensor.dim():  # the factor of a multiplication by a number is nothing to speak of
            saved.add(token)
        return token

    def batches() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for _ in range(STEPS):
            counts.append((len(saved), len(nodes)))
            yield torch.randn(3, 4), torch.randn(3, 2)

    names: dict[str, Any] = {"batches": batches(), "__name__": "program"}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the tensors are tiny: a second thread only waits
    gc.disable()
    try:
        hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda token: token.tensor)
        with hooks, _Nodes(nodes), redirect_stdout(StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of numbers made of tensors with a graph
            exec(compile(text, "program", "exec"), names)
            if "START" in names:
                net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
                names["START"](net, torch.nn.MSELoss(), torch.optim.SGD(net.parameters(), lr=0.1), batches())
    except RuntimeError:
        return "raises"
    finally:
        gc.enable()
        torch.set_num_threads(threads)
    grown = [last - early for early, last in zip(counts[3], counts[-1], strict=True)]
    passed = len(counts) - 4
    return "graphs" if grown[0] >= passed else "nodes" if grown[1] >= passed else "nothing"
