"""Rule DG712: validation in training mode."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import inserted
from drygrad.static.rules.training.evaluating import evaluated_as_trained
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
    Finds models with dropout or batch norm that are validated, or used for predictions, in training mode: under
    `no_grad` between epochs, or after training.

    ## Why is this bad?
    `no_grad` neither disables dropout nor stops batch norm from updating: the validation result is noisy and usually
    too low, and the running statistics include validation data. `eval()` does both; `train()` undoes it.

    Only models whose class in the same file contains such a layer are considered, and only if they are trained in the
    same function, or in functions it calls. Not reported: models on which `eval()` or, after training, `train()` is
    called, that run repeatedly on the same input (Monte Carlo dropout), or whose only input is noise.

    ## Example
    ```python
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.drop = nn.Linear(8, 4), nn.Dropout(0.5)

        def forward(self, x):
            return self.fc(self.drop(x))


    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(epochs):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            correct = sum((model(x).argmax(1) == y).sum() for x, y in validation)
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
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(epochs):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            correct = sum((model(x).argmax(1) == y).sum() for x, y in validation)
    ```

    ## Fix safety
    Unsafe: it changes the results, and the training loop must call `train()` again.
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
        Valid(  # the running statistics are to be those of the final weights
            _HEAD + "    with torch.no_grad():\n        for x in loader:\n            model(x)\n"
        ),
        Valid(  # dropout as a measure of uncertainty
            _HEAD
            + "    with torch.no_grad():\n        return torch.stack([model(validation) for _ in range(9)]).var(0)\n"
        ),
        Valid(_HEAD + "    model.train()\n    with torch.no_grad():\n        return model(validation)\n"),
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
""",
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
        model.eval()
        print(validate(model, validation))
        model.train()
""",
        ),
        Invalid(
            _HEAD.replace("validation", "x") + "    return model(x).argmax(1)\n",
            _HEAD.replace("validation", "x") + "    model.eval()\n    return model(x).argmax(1)\n",
        ),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        reported: set[ast.AST] = set()
        for training in plain_trainings(ctx):
            for forward in training.of("forward"):
                found = evaluated_as_trained(ctx, training, forward)
                if found is None or forward.node in reported:
                    continue
                reported.add(forward.node)
                trained, layer = found
                rest = "no_grad() does not change that, eval() does" if _without_graph(ctx, forward) else "call eval()"
                yield ctx.finding(
                    self,
                    forward.node.func if isinstance(forward.node, ast.Call) else forward.node,
                    f"{forward.receiver} is validated in training mode, so its {layer} behaves as in training; {rest}",
                    related=[("trained here", trained.node)],
                    fixes=[_switched(ctx, training, forward, trained)],
                )
                break


def _without_graph(ctx: Context, forward: Event) -> bool:
    return ctx.grad_enabled(forward.statement) is False


def _switched(ctx: Context, training: Training, forward: Event, trained: Event) -> Fix | None:
    """Return the fix that puts the model into evaluation mode and, where it is trained again, back behind it."""
    loop = next((loop for loop in forward.loops if loop in trained.loops), None)
    inside = loop.body if loop is not None else getattr(training.node, "body", [])
    outermost = next((s for s in inside if s in (forward.anchor, *ctx.ancestors(forward.anchor))), None)
    if outermost is None or forward.receiver is None:
        return None
    edits = [inserted(ctx, outermost, f"{forward.receiver}.eval()")]
    if loop is not None and not any(t.receiver == forward.receiver for t in training.within(loop, "train")):
        edits.append(inserted(ctx, outermost, f"{forward.receiver}.train()", after=True))
    return ctx.fix(f"Insert `{forward.receiver}.eval()`", *edits)
