"""Rule DG728: a seed that is set again in each step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context, FunctionNode
from drygrad.static.facts.values import Constant
from drygrad.static.loops import is_guarded, is_step_loop, trains
from drygrad.static.numbers import number_of

_SEEDS = frozenset({"torch.manual_seed", "torch.random.manual_seed", "torch.cuda.manual_seed", "numpy.random.seed"})
_GENERATORS = frozenset({"numpy.random.default_rng", "numpy.random.RandomState", "random.Random"})
_METHODS = frozenset({"forward", "training_step", "__getitem__"})


class SeedSetInStep(Rule):
    """
    ## What it does
    Finds `torch.manual_seed` with a fixed number in a loop that calls `backward()`, in a `forward`, or in a
    `__getitem__`, and generators created there with a fixed seed (`torch.Generator().manual_seed(0)`,
    `np.random.default_rng(0)`); also in a loader's `worker_init_fn`.

    ## Why is this bad?
    Every step draws the same random numbers: dropout always drops the same units, every batch gets the same noise,
    every sample the same augmentation. Set the seed once, at the start of the program.

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

    ## Fix safety
    No fix: whether to move the seed before the loop or to remove it depends on what should be reproducible.
    """

    code, name, since = "DG728", "seed-set-in-step", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            import numpy as np
            import torch

            def seed_worker(worker_id):
                np.random.seed(torch.initial_seed() % 2**32)

            loader = torch.utils.data.DataLoader(data, num_workers=2, worker_init_fn=seed_worker)
            """
        ),
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
            import numpy as np
            import torch

            def seed_worker(worker_id):
                np.random.seed(0)

            loader = torch.utils.data.DataLoader(data, num_workers=2, worker_init_fn=seed_worker)
            """,
            at=(5, 4, 5, 21),
        ),
        Invalid(
            """
            def noisy(x, seed=0):
                generator = torch.Generator(device=x.device).manual_seed(seed)
                return x + torch.randn(x.shape, generator=generator, device=x.device)

            def train(model, loader, optimizer):
                for x, y in loader:
                    loss = F.mse_loss(model(noisy(x)), y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            at=(2, 16, 2, 66),
        ),
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
        if not _seeds(node, ctx) or not node.args or not _is_fixed(node.args[0], ctx):
            return
        function = ctx.function(node)
        loop = next(iter(ctx.loops(node)), None)
        if loop is not None:
            inner = [s for s in loop.body if isinstance(s, (ast.For, ast.While))]
            repeated = trains(loop) and not inner and ctx.statement(node) in loop.body
        else:
            repeated = function is not None and ctx.statement(node) in function.body
            repeated = (
                repeated and function is not None and (_is_step(function, ctx) or _is_called_in_steps(function, ctx))
            )
        if repeated:
            yield ctx.finding(self, node, "the seed is set in every step, so all of them draw the same random numbers")
        elif function is not None and _prepares_workers(function, ctx):
            message = "every worker gets this seed in every epoch, so all of them draw the same random numbers"
            yield ctx.finding(self, node, message)


def _prepares_workers(function: FunctionNode, ctx: Context) -> bool:
    """Say whether a function is given to a loader as what each of its workers begins with."""
    return any(
        keyword.arg == "worker_init_fn" and isinstance(keyword.value, ast.Name) and keyword.value.id == function.name
        for keyword in ctx.nodes(ast.keyword)
    )


def _seeds(node: ast.Call, ctx: Context) -> bool:
    """Say whether a call sets the seed of all that is drawn, or of a generator that it makes."""
    match node.func:
        case ast.Attribute(value=ast.Call() as made, attr="manual_seed"):
            return _made(made, ctx) == "torch.Generator"
        case _:
            return ctx.name(node.func) in _SEEDS or _made(node, ctx) in _GENERATORS


def _made(call: ast.Call, ctx: Context) -> str | None:
    return ctx.name(call.func) or getattr(ctx.value(call), "type", None)


def _is_fixed(seed: ast.expr, ctx: Context) -> bool:
    value = ctx.value(seed)
    return (isinstance(value, Constant) and value.value is not None) or number_of(seed, ctx) is not None


def _is_step(function: FunctionNode, ctx: Context) -> bool:
    owner = ctx.parent(function)
    if function.name not in _METHODS or not isinstance(owner, ast.ClassDef):
        return False
    return function.name == "__getitem__" or ctx.is_module_class(owner)


def _is_called_in_steps(function: FunctionNode, ctx: Context) -> bool:
    """Say whether every call of a function in the file stands in the steps of a training, and there is one."""
    loops = [ctx.loops(site.node) for site in ctx.callers(function)]
    return bool(loops) and all(
        around and trains(around[0]) and is_step_loop(around[0], ctx) and not is_guarded(site.node, around[0], ctx)
        for around, site in zip(loops, ctx.callers(function), strict=True)
    )
