"""Rule DG601: reading a GPU tensor in every step."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context, Loop
from drygrad.static.datasets import called_by
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import UNKNOWN, Tensor
from drygrad.static.loops import backwards_in, is_guarded, is_step_loop, trains
from drygrad.static.rules.speed.gradients import first_reading, read_once, step_loops_around
from drygrad.static.syntax import assigned_in, called, calls_in

_READS = frozenset({"item", "tolist", "cpu", "numpy"})
_READERS = frozenset({"float", "int", "print"})
_WAITS_ALREADY = re.compile(r"synchronize\(|GradScaler|scaler\.|\.env\b|\benv\.")
_ANY_DEVICE = re.compile(r"\.to\(\s*((self|args|cfg|config)\.)?device\b|non_blocking=True")
_CUDA = re.compile(r"\.cuda\(|[\"']cuda(:\d+)?[\"']|\bis_available\b")


class ItemInHotLoop(Rule):
    """
    ## What it does
    Finds `loss.item()`, `float(loss)`, `loss.cpu()` and `print(loss)` in every step of a training loop, or in a
    function that gets the loss from it, if the tensor is on the GPU; and `p.grad.norm().item()` on one parameter after
    the other.

    ## Why is this bad?
    To get the number, Python waits until the GPU has finished everything in its queue; then the GPU waits until Python
    has queued the next step. If steps are short or data loading is slow, the GPU is idle for part of each step.

    Read the loss every hundredth step instead, or accumulate on the GPU (`total += loss.detach()`) and read once per
    epoch. Not reported: steps that synchronize anyway (a GradScaler in `step`; `synchronize()`), and reads under a
    condition or on the CPU.

    ## Example
    ```python
    model.cuda()
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        running_loss += loss.item()
    ```
    Use instead:
    ```python
    model.cuda()
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        running_loss += loss.detach()
    ```

    ## Fix safety
    Unsafe: the total becomes a tensor, and code that uses it may need a number. The sum over gradients stays a number
    but is rounded in the tensors' dtype.
    """

    code, name, since = "DG601", "item-in-hot-loop", "0.1"
    severity = "hint"
    costs = frozenset({"sync", "d2h"})
    VALID = [
        Valid("""
            class Meter:
                def __init__(self):
                    self.total = 0.0

                def update(self, value, step):
                    self.total = self.total + value.detach()
                    if step % 100 == 0:
                        print(value.item())

            def fit(model, loader, criterion, optimizer):
                meter = Meter()
                for step, (x, y) in enumerate(loader):
                    loss = criterion(model(x.cuda()), y.cuda())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    meter.update(loss, step)
        """),
        Valid("""
            def norms(model):
                return {n: p.grad.norm().item() for n, p in model.named_parameters() if p.grad is not None}

            def fit(model, loader, criterion, optimizer, device):
                for step, (x, y) in enumerate(loader):
                    loss = criterion(model(x.to(device)), y.to(device))
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                print(norms(model))
        """),
        Valid("""
            def train(model, loader, criterion, optimizer):
                for step, (x, y) in enumerate(loader):
                    loss = criterion(model(x.cuda()), y.cuda())
                    loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    if step % 100 == 0:
                        print(step, loss.item())
        """),
        Valid("""
            model = nn.Linear(4, 1)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            total = 0.0
            for x in torch.ones(100, 8, 4):
                loss = model(x).mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                total += loss.item()
        """),
        Valid("""
            def train(model, loader, criterion, optimizer):
                total = torch.zeros((), device="cuda")
                for x, y in loader:
                    loss = criterion(model(x.cuda()), y.cuda())
                    loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    total += loss.detach()
                print(total.item())
        """),
        Valid("""
            def train(model, loader, criterion, optimizer, scaler):
                for x, y in loader:
                    loss = criterion(model(x.cuda()), y.cuda())
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    optimizer.zero_grad()
                    scaler.update()
                    print(loss.item())
        """),
        Valid("""
            def fit(model, loader, criterion, optimizer):
                for x, y in loader:
                    loss = criterion(model(x.cuda()), y.cuda())
                    loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    if loss.item() > 100:
                        raise RuntimeError("diverged")
        """),
        Valid("""
            def show(model):
                for name, p in model.named_parameters():
                    print(name, p.grad.norm().item())

            def fit(model, loader, criterion, optimizer):
                for step, (x, y) in enumerate(loader):
                    loss = criterion(model(x.cuda()), y.cuda())
                    loss.backward()
                    if step % 100 == 0:
                        show(model)
                    optimizer.step()
                    optimizer.zero_grad()
        """),
    ]
    INVALID = [
        Invalid(
            """
            class Meter:
                def __init__(self):
                    self.total, self.count = 0.0, 0

                def update(self, value, n=1):
                    self.total += value.item() * n
                    self.count += n

            def fit(model, loader, criterion, optimizer):
                meter = Meter()
                for x, y in loader:
                    loss = criterion(model(x.cuda()), y.cuda())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    meter.update(loss, len(x))
            """,
            at=(6, 22, 6, 34),
        ),
        Invalid(
            """
            def gradient_norm(parameters):
                return sum(float(p.grad.norm()) ** 2 for p in parameters if p.grad is not None) ** 0.5

            def fit(model, loader, criterion, optimizer, device, log):
                for x, y in loader:
                    loss = criterion(model(x.to(device)), y.to(device))
                    optimizer.zero_grad()
                    loss.backward()
                    log(gradient_norm(model.parameters()))
                    optimizer.step()
            """,
            """
            def gradient_norm(parameters):
                return float(sum(p.grad.norm() ** 2 for p in parameters if p.grad is not None)) ** 0.5

            def fit(model, loader, criterion, optimizer, device, log):
                for x, y in loader:
                    loss = criterion(model(x.to(device)), y.to(device))
                    optimizer.zero_grad()
                    loss.backward()
                    log(gradient_norm(model.parameters()))
                    optimizer.step()
            """,
            at=(2, 15, 2, 35),
        ),
        Invalid(
            """
            def fit(model, loader, criterion, optimizer, device, log):
                for x, y in loader:
                    loss = criterion(model(x.to(device)), y.to(device))
                    optimizer.zero_grad()
                    loss.backward()
                    log({name: p.grad.norm().item() for name, p in model.named_parameters()})
                    optimizer.step()
            """,
            at=(6, 19, 6, 39),
        ),
        Invalid(
            """
            def train(model, loader, criterion, optimizer, epochs):
                for epoch in range(epochs):
                    running_loss = 0.0
                    for x, y in loader:
                        x, y = x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)
                        optimizer.zero_grad()
                        loss = criterion(model(x), y)
                        loss.backward()
                        optimizer.step()
                        running_loss += loss.item()
                    print(epoch, running_loss / len(loader))
            """,
            """
            def train(model, loader, criterion, optimizer, epochs):
                for epoch in range(epochs):
                    running_loss = 0.0
                    for x, y in loader:
                        x, y = x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)
                        optimizer.zero_grad()
                        loss = criterion(model(x), y)
                        loss.backward()
                        optimizer.step()
                        running_loss += loss.detach()
                    print(epoch, running_loss / len(loader))
            """,
            at=(10, 28, 10, 39),
        ),
        Invalid("""
            model = nn.Linear(4, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for x in torch.ones(100, 8, 4, device="cuda"):
                loss = model(x).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                print("loss", loss)
                history.append(float(loss))
        """),
        Invalid(
            """
            device = "cuda"

            def clip(model, limit):
                total = 0.0
                for p in model.parameters():
                    if p.grad is not None:
                        total += p.grad.norm().item() ** 2
                for p in model.parameters():
                    p.grad.mul_(min(1.0, limit / (total**0.5 + 1e-6)))

            def train(model, loader, criterion, optimizer):
                for x, y in loader:
                    loss = criterion(model(x.to(device)), y.to(device))
                    optimizer.zero_grad()
                    loss.backward()
                    clip(model, 1.0)
                    optimizer.step()
            """,
            """
            device = "cuda"

            def clip(model, limit):
                total = 0.0
                for p in model.parameters():
                    if p.grad is not None:
                        total += p.grad.norm() ** 2
                total = float(total)
                for p in model.parameters():
                    p.grad.mul_(min(1.0, limit / (total**0.5 + 1e-6)))

            def train(model, loader, criterion, optimizer):
                for x, y in loader:
                    loss = criterion(model(x.to(device)), y.to(device))
                    optimizer.zero_grad()
                    loss.backward()
                    clip(model, 1.0)
                    optimizer.step()
            """,
            at=(7, 21, 7, 41),
        ),
    ]

    def visit_gradients(self, node: ast.For | ast.comprehension, ctx: Context) -> Iterator[Finding]:
        reading = first_reading(node, ctx)
        if reading is None or not (ctx.mentions(_CUDA) or ctx.mentions(_ANY_DEVICE)):
            return
        steps = [loop for loop, _ in step_loops_around(node, ctx)]
        if steps and not any(_WAITS_ALREADY.search(ctx.source_of(loop)) for loop in steps):
            message = (
                f"{ctx.source_of(reading)} synchronizes with the GPU for every parameter in every step; sum the "
                "tensors and read once"
            )
            yield ctx.finding(self, reading, message, fixes=[read_once(node, reading, ctx)])

    def visit_loop(self, node: ast.For | ast.While, ctx: Context) -> Iterator[Finding]:
        if not trains(node) or not is_step_loop(node, ctx) or _WAITS_ALREADY.search(ctx.source_of(node)):
            return
        readings = list(_readings(node, ctx))
        if readings:
            first = readings[0]
            message = (
                f"{ctx.source_of(first)} synchronizes with the GPU in every step; read it every N steps, or once "
                "after the loop"
            )
            related = [("and here", other) for other in readings[1:]]
            fixes = [_fix(first, ctx)] if len(readings) == 1 else []
            yield ctx.finding(self, first, message, related=related, fixes=fixes)
            return
        for call, reading in _handed_to_readers(node, ctx):
            message = f"{ctx.source_of(reading)} synchronizes with the GPU in every step of the loop that calls this"
            yield ctx.finding(self, reading, message, related=[("called here in every step", call)])
            return


def _handed_to_readers(loop: Loop, ctx: Context) -> Iterator[tuple[ast.Call, ast.Call]]:
    """Yield the calls that hand a GPU tensor to a function of the file that always reads it, and where it does."""
    losses = {name for backward in backwards_in(loop, ctx) for name in backward.names}
    for call in calls_in(loop):
        if is_guarded(call, loop, ctx) or not (call.args or call.keywords):
            continue
        for function, names in called_by(call, ctx):
            given = [*zip(names, call.args, strict=False), *((k.arg or "", k.value) for k in call.keywords)]
            handed = {name for name, argument in given if _is_on_gpu(argument, losses, ctx)}
            handed -= {name for name, _ in assigned_in(function)}
            for reading in calls_in(function) if handed else ():
                always = not is_guarded(reading, function, ctx) and not _decides(reading, ctx)
                if always and any(isinstance(read, ast.Name) and read.id in handed for read in _read_by(reading)):
                    yield call, reading


def _readings(loop: Loop, ctx: Context) -> Iterator[ast.Call]:
    """Yield the calls that read a GPU tensor whenever an iteration runs, only to report or to add it up."""
    losses = {name for backward in backwards_in(loop, ctx) for name in backward.names}
    for call in calls_in(loop):
        if is_guarded(call, loop, ctx) or _decides(call, ctx):
            continue
        if any(_is_on_gpu(read, losses, ctx) for read in _read_by(call)):
            yield call


def _read_by(call: ast.Call) -> list[ast.expr]:
    if isinstance(call.func, ast.Attribute) and call.func.attr in _READS and not call.args:
        return [call.func.value]
    if isinstance(call.func, ast.Name) and call.func.id in _READERS:
        return call.args
    return []


def _decides(call: ast.Call, ctx: Context) -> bool:
    """Say whether a reading decides what happens next."""
    return called(call) in ("item", "float", "int") and ctx.enclosing(call, ast.Compare, ast.BoolOp) is not None


def _is_on_gpu(node: ast.expr, losses: set[str], ctx: Context) -> bool:
    """Say whether a tensor is on the GPU where there is one; of the loss of a file that uses CUDA one may expect it."""
    value = ctx.value(node)
    if isinstance(value, Tensor) and value.device is not None:
        return value.device.startswith(("cuda", "auto"))
    if value is not UNKNOWN and not isinstance(value, Tensor):
        return False
    return dotted_text(node) in losses and ctx.mentions(_CUDA)


def _fix(reading: ast.Call, ctx: Context) -> Fix | None:
    """Add the tensor itself up, where a total is all that it is read for."""
    added = ctx.parent(reading)
    if not isinstance(added, ast.AugAssign) or added.value is not reading or called(reading) != "item":
        return None
    assert isinstance(reading.func, ast.Attribute)
    tensor = ctx.source_of(reading.func.value)
    return ctx.fix("Accumulate on the GPU with `detach()`", ctx.replace(reading, f"{tensor}.detach()"))
