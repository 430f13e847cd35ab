"""Rule DG728: a seed that is set again in each step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context, FunctionNode
from drygrad.static.facts.values import Constant
from drygrad.static.loops import trains

_SEEDS = frozenset({"torch.manual_seed", "torch.random.manual_seed", "torch.cuda.manual_seed", "numpy.random.seed"})
_METHODS = frozenset({"forward", "training_step", "__getitem__"})


class SeedSetInStep(Rule):
    """
    ## What it does
    Finds `torch.manual_seed` with a fixed number in a loop that runs `backward()`, in a `forward`, or in a
    `__getitem__`.

    ## Why is this bad?
    Each step draws the same random numbers: dropout leaves out the same units throughout, the same noise is added
    to every batch, each sample is augmented in the same way. The seed belongs to the beginning of the program.

    ## Example
    ```python
    for x, y in loader:
        torch.manual_seed(0)
        loss = criterion(model(x), y)
        loss.backward()
    ```
    Use instead:
    ```python
    torch.manual_seed(0)
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
    ```
    """

    code, name, since = "DG728", "seed-set-in-step", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            def train(model, loader, seeds):
                for seed in seeds:
                    torch.manual_seed(seed)
                    for x, y in loader:
                        F.cross_entropy(model(x), y).backward()

            def compare(models, x):
                for model in models:
                    torch.manual_seed(0)
                    print(model(x))
            """
        ),
        Valid(
            """
            def repeat(build, loader):
                for lr in (0.1, 0.01):
                    torch.manual_seed(0)
                    model = build()
                    for x, y in loader:
                        F.cross_entropy(model(x), y).backward()
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            def train(model, loader):
                for x, y in loader:
                    torch.manual_seed(0)
                    F.cross_entropy(model(x), y).backward()
            """,
            at=(3, 8, 3, 28),
        ),
        Invalid(
            """
            class Noisy(nn.Module):
                def forward(self, x):
                    torch.manual_seed(42)
                    return x + torch.randn_like(x)
            """
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        if ctx.name(node.func) not in _SEEDS or not node.args or not isinstance(ctx.value(node.args[0]), Constant):
            return
        function = ctx.function(node)
        loop = next(iter(ctx.loops(node)), None)
        if loop is not None:
            inner = [s for s in loop.body if isinstance(s, (ast.For, ast.While))]
            repeated = trains(loop) and not inner and ctx.statement(node) in loop.body
        else:
            repeated = function is not None and _is_step(function, ctx) and ctx.statement(node) in function.body
        if repeated:
            yield ctx.finding(self, node, "this is run in each step: all of them draw the same random numbers")


def _is_step(function: FunctionNode, ctx: Context) -> bool:
    owner = ctx.parent(function)
    if function.name not in _METHODS or not isinstance(owner, ast.ClassDef):
        return False
    return function.name == "__getitem__" or ctx.is_module_class(owner)
