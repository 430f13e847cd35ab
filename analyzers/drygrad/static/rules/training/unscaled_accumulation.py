"""Rule DG705: accumulation of undivided losses."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Severity, Valid
from drygrad.static.context import Context, FunctionNode, Loop
from drygrad.static.facts.operations import LOSSES
from drygrad.static.facts.values import Constant, Object
from drygrad.static.roles import role_of
from drygrad.static.rules.training.iterations import Accumulation, accumulations
from drygrad.static.rules.training.scalers import optimizer_of
from drygrad.static.steps import Event, plain_trainings
from drygrad.static.tree import walk


class UnscaledAccumulation(Rule):
    """
    ## What it does
    Finds gradient accumulation without dividing the loss by the number of micro-batches.

    ## Why is this bad?
    `backward()` adds gradients, and the loss of each micro-batch is a mean. Over k micro-batches the step gets k times
    the gradient of the large batch, as if the learning rate were k times higher and the clipping threshold k times
    lower. Optimizers that normalize their updates (the Adam family) hide most of this; with them, or if the loss is not
    known to be a mean, the finding is an info.

    ## Example
    ```python
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        if (i + 1) % k == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
    ```
    Use instead:
    ```python
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x), y)
        (loss / k).backward()
        if (i + 1) % k == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
    ```

    ## Fix safety
    Unsafe: it changes the updates.
    """

    code, name, since = "DG705", "unscaled-accumulation", "0.1"
    severity = "warning"
    VALID = [
        Valid("""
            for i, (x, y) in enumerate(loader):
                loss = F.cross_entropy(model(x), y)
                loss = loss / k
                loss.backward()
                if (i + 1) % k == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        """),
        Valid("""
            for i, (x, y) in enumerate(loader):
                loss = F.cross_entropy(model(x), y, reduction="sum")
                loss.backward()
                if (i + 1) % k == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        """),
        Valid("""
            for i, batch in enumerate(loader):
                loss = compute_loss(model, batch)  # may divide
                loss.backward()
                if (i + 1) % k == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        """),
        Valid("""
            for i, (x, y) in enumerate(loader):
                F.cross_entropy(model(x), y).backward()
                if (i + 1) % k == 0:
                    for p in model.parameters():
                        p.grad /= k
                    optimizer.step()
                    optimizer.zero_grad()
        """),
        Valid("""
            for i, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                if i % 100 == 0:
                    print(i)
        """),
    ]
    INVALID = [
        Invalid(
            """
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for i, (x, y) in enumerate(loader):
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                if (i + 1) % k == 0:
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            """
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for i, (x, y) in enumerate(loader):
                loss = F.cross_entropy(model(x), y)
                (loss / k).backward()
                if (i + 1) % k == 0:
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            at=(4, 4, 4, 8),
        ),
        Invalid(
            """
            def train(net, loader, criterion, opt, args):
                scaler = torch.amp.GradScaler("cuda")
                for i, (x, y) in enumerate(loader):
                    with torch.autocast("cuda"):
                        loss = criterion(net(x), y)
                    scaler.scale(loss).backward()
                    if not (i + 1) % args.accumulate:
                        scaler.step(opt)
                        scaler.update()
                        opt.zero_grad()
            """,
            """
            def train(net, loader, criterion, opt, args):
                scaler = torch.amp.GradScaler("cuda")
                for i, (x, y) in enumerate(loader):
                    with torch.autocast("cuda"):
                        loss = criterion(net(x), y)
                    scaler.scale(loss / args.accumulate).backward()
                    if not (i + 1) % args.accumulate:
                        scaler.step(opt)
                        scaler.update()
                        opt.zero_grad()
            """,
            severity="info",
        ),
        Invalid(
            """
            K = 4

            def micro(m, x, y):
                loss = F.cross_entropy(m(x), y)
                loss.backward()

            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for i, (x, y) in enumerate(loader):
                micro(model, x, y)
                if (i + 1) % K == 0 or i + 1 == len(loader):
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            """
            K = 4

            def micro(m, x, y):
                loss = F.cross_entropy(m(x), y)
                (loss / K).backward()

            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for i, (x, y) in enumerate(loader):
                micro(model, x, y)
                if (i + 1) % K == 0 or i + 1 == len(loader):
                    optimizer.step()
                    optimizer.zero_grad()
            """,
        ),
        Invalid(
            """
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            seen = 0
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                seen += 1
                if seen == 4:
                    optimizer.step()
                    optimizer.zero_grad()
                    seen = 0
            """,
            """
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            seen = 0
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                (loss / 4).backward()
                seen += 1
                if seen == 4:
                    optimizer.step()
                    optimizer.zero_grad()
                    seen = 0
            """,
        ),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        for training in plain_trainings(ctx):
            for accumulation in accumulations(ctx, training):
                if training.within(accumulation.loop, "grad_edit") or _is_one(ctx, accumulation.size):
                    continue
                for backward in accumulation.backwards:
                    yield from self._check(ctx, accumulation, backward)

    def _check(self, ctx: Context, accumulation: Accumulation, backward: Event) -> Iterator[Finding]:
        given = _loss_of(backward)
        scope = ctx.function(backward.node) if backward.via else None
        call = _computed_by(ctx, given, scope or accumulation.loop) if given is not None else None
        severity = _severity(ctx, call, accumulation) if call is not None else None
        if given is None or severity is None:
            return
        size = ctx.source_of(accumulation.size)
        yield ctx.finding(
            self,
            given,
            f"each micro-batch loss is a mean and is not divided by {size}; the accumulated gradient is {size} times "
            "too large",
            severity=severity,
            fixes=[self._fix(ctx, accumulation, given)],
        )

    def _fix(self, ctx: Context, accumulation: Accumulation, given: ast.expr) -> Fix | None:
        parent = ctx.parent(given)
        if isinstance(accumulation.size, ast.Name) and not _is_seen(ctx, accumulation.size, given):
            return None
        if not isinstance(accumulation.size, (ast.Name, ast.Attribute, ast.Constant)):
            return None
        divided = f"{ctx.source_of(given)} / {ctx.source_of(accumulation.size)}"
        text = f"({divided})" if isinstance(parent, ast.Attribute) else divided
        return ctx.fix(f"Divide the loss by `{ctx.source_of(accumulation.size)}`", ctx.replace(given, text))


def _is_seen(ctx: Context, size: ast.Name, given: ast.expr) -> bool:
    """Say whether the size of a group has the same name where the loss is."""
    return ctx.function(size) in (None, ctx.function(given))


def _is_one(ctx: Context, size: ast.expr) -> bool:
    return ctx.value(size) == Constant(1)


def _loss_of(backward: Event) -> ast.expr | None:
    """Return the expression that backward starts from, that inside ``scaler.scale(...)`` where there is one."""
    if not isinstance(backward.node, ast.Call) or not isinstance(backward.node.func, ast.Attribute):
        return None
    owner = backward.node.func.value
    if backward.scaler is None:
        return owner
    return owner.args[0] if isinstance(owner, ast.Call) and owner.args else None


def _computed_by(ctx: Context, given: ast.expr, loop: Loop | FunctionNode) -> ast.Call | None:
    """Return the call of a loss function that gives the loss as it is, by whatever one name it is held."""
    if isinstance(given, ast.Name):
        stored = [n for n in walk(loop) if isinstance(n, ast.Name) and n.id == given.id]
        writes = [n for n in stored if isinstance(n.ctx, ast.Store)]
        statement = ctx.parent(writes[0]) if len(writes) == 1 else None
        if not isinstance(statement, ast.Assign) or statement.targets != writes:
            return None
        given = statement.value
    return given if isinstance(given, ast.Call) and _is_loss(ctx, given) else None


def _is_loss(ctx: Context, call: ast.Call) -> bool:
    known = ctx.call(call)
    if known is not None:
        return known.operation in LOSSES and known.constant("reduction", "mean") == "mean"
    return role_of(ctx, call.func) == "loss" and not call.keywords


def _severity(ctx: Context, call: ast.Call, accumulation: Accumulation) -> Severity | None:
    optimizer = ctx.value(optimizer_of(accumulation.step))
    scale_free = isinstance(optimizer, Object) and "Adam" in optimizer.type
    return "info" if ctx.call(call) is None or scale_free else "warning"
