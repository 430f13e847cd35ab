"""Rule DG107: a tensor that requires grad turned into a NumPy array."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import as_operand
from drygrad.static.facts.values import Constant, Tensor
from drygrad.static.rules.autograd.graph import mode_is_shown

_ARRAYS = frozenset({"numpy.array", "numpy.asarray", "numpy.asanyarray", "numpy.ascontiguousarray"})


class NumpyOfGradTensor(Rule):
    """
    ## What it does
    Finds `.numpy()` and `np.array(...)` on a tensor that requires grad.

    ## Why is this bad?
    NumPy cannot record a graph, so torch raises `Can't call numpy() on Tensor that requires grad`. Under
    `torch.no_grad()` nothing is recorded, and the same call works.

    ## Example
    ```python
    model = nn.Linear(8, 4)
    scores = model(images).cpu().numpy()
    ```
    Use instead:
    ```python
    model = nn.Linear(8, 4)
    scores = model(images).detach().cpu().numpy()
    ```

    ## Fix safety
    Safe: if the call worked before, `detach()` changes nothing.
    """

    code, name, since = "DG107", "numpy-of-grad-tensor", "0.1"
    severity = "error"
    VALID = [
        Valid("w = torch.rand(3, requires_grad=True)\nw.detach().numpy()"),
        Valid("w = torch.rand(3, requires_grad=True)\nwith torch.no_grad():\n    print((w * 2).numpy())"),
        Valid("w = torch.rand(3, requires_grad=True)\nw.numpy(force=True)"),
        Valid("w = torch.rand(3, requires_grad=True)\nprint(w.tolist(), w.argmax().numpy())"),
        Valid("def plot(x):\n    return x.cpu().numpy()"),
        Valid("net = nn.Linear(2, 2).requires_grad_(False)\nprint(net(torch.rand(2)).numpy())"),
        Valid(
            "net = nn.Linear(2, 2)\n\n@torch.no_grad()\ndef predict(x):\n    return net(x).numpy()\n\n"
            "predict(torch.rand(2))"
        ),
    ]
    INVALID = [
        Invalid(
            "w = torch.rand(3, requires_grad=True)\nprint(w.numpy())",
            "w = torch.rand(3, requires_grad=True)\nprint(w.detach().numpy())",
            at=(2, 6, 2, 15),
        ),
        Invalid(
            "net = nn.Linear(2, 2)\nfor x in torch.rand(3, 2):\n    y = net(x)\n    f((y * 2).cpu().numpy())",
            "net = nn.Linear(2, 2)\nfor x in torch.rand(3, 2):\n    y = net(x)\n    f((y * 2).cpu().detach().numpy())",
        ),
        Invalid(
            "import numpy as np\nimport torch\n\nw = torch.rand(3, requires_grad=True)\na = np.array(w * 2)",
            "import numpy as np\nimport torch\n\nw = torch.rand(3, requires_grad=True)\na = np.array((w * 2).detach())",
            at=(5, 13, 5, 18),
        ),
        Invalid(
            """
            import matplotlib.pyplot as plt
            import torch
            from torch import nn

            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(4, 2)

                def forward(self, x):
                    return torch.tanh(self.fc(x))

            net = Net()
            predicted = net(torch.rand(8, 4))
            plt.plot(predicted.numpy())
            """,
            """
            import matplotlib.pyplot as plt
            import torch
            from torch import nn

            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(4, 2)

                def forward(self, x):
                    return torch.tanh(self.fc(x))

            net = Net()
            predicted = net(torch.rand(8, 4))
            plt.plot(predicted.detach().numpy())
            """,
        ),
        Invalid(
            "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.w = nn.Parameter(torch.rand(3))\n\n    def f(self):\n        return self.w.numpy()",
            "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.w = nn.Parameter(torch.rand(3))\n\n    def f(self):\n        return self.w.detach().numpy()",
            severity="warning",
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        converted = _converted(node, ctx)
        tensor = ctx.tensor(converted)
        if converted is None or not isinstance(tensor, Tensor) or tensor.requires_grad is not True:
            return
        if ctx.grad_enabled(ctx.statement(node)) is not True:
            return
        shown = mode_is_shown(ctx, node)
        detached = ctx.replace(converted, f"{as_operand(ctx, converted)}.detach()")
        method = isinstance(node.func, ast.Attribute) and node.func.value is converted
        yield ctx.finding(
            self,
            node if method else converted,
            f"`{ctx.source_of(converted)}` requires grad and cannot be converted to NumPy; the call raises"
            + ("" if shown else " unless the caller uses torch.no_grad()"),
            severity="error" if shown else "warning",
            fixes=[ctx.fix("Insert `detach()`", detached, safety="safe")],
        )


def _converted(node: ast.Call, ctx: Context) -> ast.expr | None:
    """Return the expression that a call turns into an array."""
    call = ctx.call(node)
    if call is not None and call.target == "Tensor.numpy":
        force = call.keyword_values.get("force", Constant(False))
        return call.operands[0] if not node.args and force == Constant(False) else None
    if isinstance(node.func, (ast.Attribute, ast.Name)) and node.args and ctx.name(node.func) in _ARRAYS:
        return node.args[0]
    return None
