"""Rule DG738: an optimizer none of whose parameters ever has a gradient."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Object
from drygrad.static.rules.training.untrained import all_frozen, trained_instead
from drygrad.static.steps import Event, Training, plain_trainings
from drygrad.static.steps.parameters import made_at, models_of, optimizer_value

_FROZEN = "all parameters of this optimizer are frozen, so step() has no effect"


class OptimizerWithoutGradients(Rule):
    """
    ## What it does
    Finds an optimizer that holds only frozen parameters, or those of a different model than its loop trains. A dry run
    also reports an optimizer whose parameters never got a gradient, although backward ran before each step.

    The check only reports this if it knows every model and function of the loop, and if nothing in the file re-enables
    `requires_grad` or adds layers to a model. A run's finding is on the line that cuts the graph (a `detach()`, a
    surrounding `no_grad`) if the parameters are used at all; otherwise where the optimizer is created.

    ## Why is this bad?
    The steps silently do nothing. Common causes: the model was recreated after the optimizer got its parameters (`model
    = copy.deepcopy(model)`), the optimizer holds those of another instance, or the loss was computed from a detached
    output, such as a generator's loss on images that were detached for the discriminator.

    ## Example
    ```python
    model = nn.Linear(8, 4)
    optimizer = torch.optim.Adam(model.parameters())
    model = nn.Linear(8, 4)
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    ```
    Use instead:
    ```python
    model = nn.Linear(8, 4)
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    ```

    ## Fix safety
    No fix: drygrad cannot tell whether the optimizer or the loss uses the wrong model.
    """

    code, name, since = "DG738", "optimizer-without-gradients", "0.1"
    severity = "warning"
    VALID = [
        Valid(  # the new layer learns
            """
            net = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3))
            for p in net.parameters():
                p.requires_grad = False
            net[1] = nn.Linear(8, 3)
            optimizer = torch.optim.Adam(net.parameters())
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
            """
        ),
        Valid(  # the new layer is a part of what the loop trains
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 5)

                def forward(self, x):
                    return self.fc(x)

            def finetune(model, batches):
                model.fc = nn.Linear(8, 3)
                optimizer = torch.optim.Adam(model.fc.parameters())
                for x, y in batches:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()

            finetune(Net(), [])
            """
        ),
        Valid(
            """
            net, head = nn.Sequential(nn.Linear(4, 8)), nn.Linear(8, 3)
            net.extend([head])
            optimizer = torch.optim.Adam(head.parameters())
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
            """
        ),
        Valid(  # what is trained is a part of what the optimizer holds
            """
            inner = nn.Linear(4, 3)
            net = nn.Sequential(inner, nn.ReLU())
            optimizer = torch.optim.Adam(net.parameters())
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(inner(x), y).backward()
                optimizer.step()
            """
        ),
        Valid(
            """
            teacher, student = nn.Linear(4, 3), nn.Linear(4, 3)
            optimizer = torch.optim.Adam(student.parameters())
            for x, y in loader:
                optimizer.zero_grad()
                F.mse_loss(distil(student, x), teacher(x)).backward()
                optimizer.step()
            """
        ),
        Valid(
            """
            import torch
            import torch.nn as nn

            # dry-run: x=torch.randn(3, 4)
            def train(x):
                model = nn.Linear(4, 1)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for _ in range(3):
                    optimizer.zero_grad()
                    model(x).sum().backward()
                    optimizer.step()
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import copy
            import torch
            import torch.nn as nn

            # dry-run: x=torch.randn(3, 4)
            def train(x):
                model = nn.Linear(4, 1)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                model = copy.deepcopy(model)
                for _ in range(3):
                    optimizer.zero_grad()
                    model(x).sum().backward()
                    optimizer.step()
            """,
            at=(8, 16, 8, 59),
        ),
        Invalid(
            """
            backbone, head = nn.Linear(4, 8), nn.Linear(8, 3)
            for p in backbone.parameters():
                p.requires_grad = False
            optimizer = torch.optim.Adam(backbone.parameters())
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(head(backbone(x)), y).backward()
                optimizer.step()
            """,
            at=(4, 12, 4, 51),
        ),
        Invalid(
            """
            net = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3))
            for p in net.parameters():
                p.requires_grad = False
            optimizer = torch.optim.Adam(net.parameters())
            """,
        ),
        Invalid(
            """
            def fit(model, optimizer, batches):
                for x, y in batches:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()

            first, second = nn.Linear(4, 3), nn.Linear(4, 3)
            fit(second, torch.optim.Adam(first.parameters()), [])
            """,
        ),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        reported: set[ast.Call] = set()
        for training in plain_trainings(ctx):
            for step in training.of("step"):
                optimizer = optimizer_value(ctx, step)
                made, models = made_at(optimizer), models_of(optimizer)
                if made is None or not models or made in reported:
                    continue
                found = self._finding(ctx, training, step, made, models)
                if found is not None:
                    reported.add(made)
                    yield found
        yield from self._never_stepped(ctx, reported)

    def _never_stepped(self, ctx: Context, reported: set[ast.Call]) -> Iterator[Finding]:
        """Find optimizers of frozen parameters that stay where they are made, in whatever way they are stepped."""
        for made in ctx.nodes(ast.Call):
            value = ctx.value(made)
            if made in reported or ctx.function(made) is not None or made_at(value) is not made:
                continue
            models = models_of(value)
            if models and all_frozen(ctx, made, models):
                yield ctx.finding(self, made, _FROZEN)

    def _finding(
        self, ctx: Context, training: Training, step: Event, made: ast.Call, models: tuple[Object, ...]
    ) -> Finding | None:
        if all_frozen(ctx, made, models):
            message, related = _FROZEN, []
        else:
            forward = trained_instead(ctx, training, step, models)
            if forward is None:
                return None
            message = "this optimizer holds another model's parameters, not those of the model being trained"
            related = [("this model is trained", forward.node)]
        return ctx.finding(self, made, message, related=[*related, ("the step", step.node)])
