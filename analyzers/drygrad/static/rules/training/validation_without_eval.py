"""Rule DG712: validation in training mode."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context, Loop
from drygrad.static.editing import inserted
from drygrad.static.rules.training.modes import mode_layer
from drygrad.static.steps import Event, Training, plain_trainings

_NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 1)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.fc(x))

"""
_HEAD = (
    _NET
    + """
def main(loader, validation):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(9):
        model.train()
        for x in loader:
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
"""
)


class ValidationWithoutEval(Rule):
    """
    ## What it does
    Finds validation loops under `no_grad` that run a model with dropout or batch norm while it is in training mode.

    ## Why is this bad?
    `no_grad` does not switch dropout off, nor does it keep batch norm from learning: the validation result is noisy and
    too low, and the running statistics take in the validation data. `eval()` does both; `train()` undoes it.

    Only models whose class in the same file shows such a layer are looked at, and only where they are trained in the
    same function.

    ## Example
    ```python
    with torch.no_grad():
        for x, y in validation:
            correct += (model(x).argmax(1) == y).sum()
    ```
    Use instead:
    ```python
    model.eval()
    with torch.no_grad():
        for x, y in validation:
            correct += (model(x).argmax(1) == y).sum()
    ```

    ## Fix safety
    Unsafe: it changes the results; the training loop must switch back with `train()`.
    """

    code, name, since = "DG712", "validation-without-eval", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            _HEAD + "        model.eval()\n        with torch.no_grad():\n            for x in validation:\n"
            "                print(model(x).mean())\n"
        ),
        Valid(
            _HEAD.replace("nn.Dropout(0.5)", "nn.Identity()")
            + "        with torch.no_grad():\n            for x in validation:\n"
            "                print(model(x).mean())\n"
        ),
        Valid(
            _HEAD + "        prepare(model)\n        with torch.no_grad():\n            for x in validation:\n"
            "                print(model(x).mean())\n"
        ),
        Valid(
            _NET
            + """
def validate(model: Net, loader):
    with torch.no_grad():
        for x in loader:
            print(model(x).mean())
"""
        ),
    ]
    INVALID = [
        Invalid(
            _HEAD + "        with torch.no_grad():\n            for x in validation:\n"
            "                print(model(x).mean())\n",
            _HEAD + "        model.eval()\n        with torch.no_grad():\n            for x in validation:\n"
            "                print(model(x).mean())\n",
        ),
        Invalid(
            _NET
            + """
@torch.no_grad()
def validate(net, loader):
    return sum(net(x).mean() for x in loader)

def main(loader, validation):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.train()
    for epoch in range(9):
        for x in loader:
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
        print(validate(model, validation))
"""
        ),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        for training in plain_trainings(ctx):
            for forward in training.of("forward"):
                loop = self._epoch_loop(training, forward)
                layer = self._layer(ctx, training, forward) if loop is not None else None
                if loop is not None and layer is not None:
                    yield ctx.finding(
                        self,
                        forward.node.func if isinstance(forward.node, ast.Call) else forward.node,
                        f"{forward.receiver} is validated in training mode: its {layer} works as in training; "
                        "no_grad does not change that, eval() does",
                        fixes=[self._fix(ctx, training, forward, loop)],
                    )
                    break

    def _epoch_loop(self, training: Training, forward: Event) -> Loop | None:
        """Return the loop that trains the model and then runs the forward without a backward."""
        loop = forward.loops[-1] if forward.loops else None
        if (
            loop is None
            or training.hides(loop, "model")
            or any(training.within(i, "backward") for i in forward.loops[:-1])
        ):
            return None
        trained = [b for b in training.within(loop, "backward") if b.index < forward.index]
        before = [f for f in training.within(loop, "forward") if trained and f.index < trained[-1].index]
        mine = [f for f in before if f.receiver == forward.receiver and f.loops[0] is trained[-1].loops[0]]
        later = [b for b in training.within(loop, "backward") if b.index > forward.index]
        separate = trained and len(trained[-1].loops) > 1 and forward.receiver is not None
        return loop if mine and separate and not later and not training.of("eval") else None

    def _layer(self, ctx: Context, training: Training, forward: Event) -> str | None:
        call = forward.node
        if not isinstance(call, ast.Call) or ctx.grad_enabled(forward.statement) is not False:
            return None
        return mode_layer(ctx, ctx.value(call.func))

    def _fix(self, ctx: Context, training: Training, forward: Event, loop: Loop) -> Fix | None:
        back = [t for t in training.within(loop, "train") if t.receiver == forward.receiver]
        outermost = next((s for s in loop.body if s in (forward.anchor, *ctx.ancestors(forward.anchor))), None)
        if not back or outermost is None or forward.via:
            return None
        text = f"{forward.receiver}.eval()"
        return ctx.fix(f"Insert {text}", inserted(ctx, outermost, text))
