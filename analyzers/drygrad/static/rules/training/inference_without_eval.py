"""Rule DG713: inference with a loaded model in training mode."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import inserted
from drygrad.static.rules.training.modes import mode_layer
from drygrad.static.steps import Event, Training, plain_trainings

_NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))

    def forward(self, x):
        return self.layers(x)

"""


class InferenceWithoutEval(Rule):
    """
    ## What it does
    Finds models with dropout or batch norm that are created, loaded with saved weights and run without `eval()`, and
    never trained.

    ## Why is this bad?
    A new module is in training mode: dropout draws a new mask in each call, and batch norm uses batch statistics and
    overwrites the loaded ones. The same input gives different results each time, without an error.

    Only models whose class in the same file contains such a layer are considered.

    ## Example
    ```python
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.drop = nn.Linear(8, 4), nn.Dropout(0.5)

        def forward(self, x):
            return self.fc(self.drop(x))


    model = Net()
    model.load_state_dict(torch.load("net.pt"))
    print(model(x))
    ```
    Use instead:
    ```python
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.drop = nn.Linear(8, 4), nn.Dropout(0.5)

        def forward(self, x):
            return self.fc(self.drop(x))


    model = Net()
    model.load_state_dict(torch.load("net.pt"))
    model.eval()
    with torch.no_grad():
        print(model(x))
    ```

    ## Fix safety
    Unsafe: it changes the results.
    """

    code, name, since = "DG713", "inference-without-eval", "0.1"
    severity = "warning"
    VALID = [
        Valid(_NET + "model = Net()\nmodel.load_state_dict(torch.load('net.pt'))\nmodel.eval()\nprint(model(x))"),
        Valid(
            _NET + "model = Net()\nmodel.load_state_dict(torch.load('net.pt'))\nloss = model(x).mean()\nloss.backward()"
        ),
        Valid(
            _NET.replace("nn.BatchNorm1d(8)", "nn.LayerNorm(8)")
            + "model = Net()\nmodel.load_state_dict(torch.load('net.pt'))\nprint(model(x))"
        ),
        Valid(_NET + "model = Net()\nmodel.load_state_dict(torch.load('net.pt'))\nprepare(model)\nprint(model(x))"),
        Valid(_NET + "model = Net().eval()\nmodel.load_state_dict(torch.load('net.pt'))\nprint(model(x))"),
    ]
    INVALID = [
        Invalid(
            _NET + "model = Net()\nmodel.load_state_dict(torch.load('net.pt'))\nprint(model(x))",
            _NET + "model = Net()\nmodel.load_state_dict(torch.load('net.pt'))\nmodel.eval()\nprint(model(x))",
            at=(11, 6, 11, 11),
        ),
        Invalid(
            _NET
            + """
def predict(path, loader):
    net = Net()
    net.load_state_dict(torch.load(path, map_location="cpu"))
    with torch.no_grad():
        return [net(x) for x in loader]
""",
            _NET
            + """
def predict(path, loader):
    net = Net()
    net.load_state_dict(torch.load(path, map_location="cpu"))
    net.eval()
    with torch.no_grad():
        return [net(x) for x in loader]
""",
        ),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        for training in plain_trainings(ctx):
            if training.of("backward", "step", "train", "eval") or training.hides(None, "model"):
                continue
            for load in training.of("load"):
                forward = self._forward(training, load)
                if forward is None or not isinstance(forward.node, ast.Call):
                    continue
                layer = mode_layer(ctx, ctx.value(forward.node.func))
                if layer is not None and not self._is_set(ctx, forward):
                    yield ctx.finding(
                        self,
                        forward.node.func,
                        f"{load.receiver} is still in training mode, so its {layer} behaves as in training; call "
                        "eval()",
                        related=[("the weights are loaded here", load.node)],
                        fixes=[self._fix(ctx, load)],
                    )

    def _forward(self, training: Training, load: Event) -> Event | None:
        later = training.events[load.index + 1 :]
        return next((e for e in later if e.kind == "forward" and e.receiver == load.receiver and not e.via), None)

    def _is_set(self, ctx: Context, forward: Event) -> bool:
        """Say whether the model was put into evaluation mode where it was made: ``Net().eval()``."""
        assert isinstance(forward.node, ast.Call)
        return getattr(ctx.value(forward.node.func), "training", None) is not None

    def _fix(self, ctx: Context, load: Event) -> Fix | None:
        text = f"{load.receiver}.eval()"
        return None if load.via else ctx.fix(f"Insert `{text}`", inserted(ctx, load.statement, text, after=True))
