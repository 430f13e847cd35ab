"""Rule DG205: an operation on tensors of different devices."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Edit, Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.conversions import converted, is_written
from drygrad.static.editing import with_keyword
from drygrad.static.expected_errors import is_expected
from drygrad.static.facts.events import DeviceMismatch
from drygrad.static.facts.operations import LOSSES
from drygrad.static.facts.values import Tensor, TorchCall
from drygrad.static.rules.device.batches import (
    batches_move_unseen,
    if_left_there,
    loader_loop,
    move_at_head,
    touched_names,
    unpacked_names,
)
from drygrad.static.rules.device.mismatches import Operand, belongs_to_module, operands_of
from drygrad.static.rules.device.placement import (
    device_expression,
    device_of,
    is_plain_factory,
    spoken,
    unless,
)
from drygrad.static.tree import walk


class TensorsOnDifferentDevices(Rule):
    """
    ## What it does
    Finds operations and losses whose tensors are on different devices: a prediction on the GPU, its target on the CPU.

    ## Why is this bad?
    An operation runs on one device, and torch never copies between devices implicitly: it raises "Expected all tensors
    to be on the same device". If the device is chosen at run time, the code works on a machine without a GPU and fails
    on every other.

    ## Example
    ```python
    for images, labels in loader:
        images = images.to(device)
        loss = F.cross_entropy(model(images), labels)
    ```
    Use instead:
    ```python
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        loss = F.cross_entropy(model(images), labels)
    ```

    ## Fix safety
    Safe: either the code raised before, or both are on the CPU and `.to()` has no effect.
    """

    code, name, since = "DG205", "tensors-on-different-devices", "0.1"
    calls = LOSSES
    severity = "error"
    VALID = [
        Valid(
            """
            class Codes(nn.Module):
                def __init__(self, learnt):
                    super().__init__()
                    table = torch.randn(8, 4)
                    self.table = nn.Parameter(table) if learnt else table
                    self.register_buffer("fixed", torch.randn(8, 4))

                def forward(self, x):
                    chosen = torch.randperm(8, device=x.device)[:4]
                    return self.table[chosen], self.fixed[chosen]
            """
        ),
        Valid("x = torch.randn(4, 3).cuda()\ni = torch.tensor([0, 1])\ny = x[i], x[torch.arange(2)], torch.eye(3)[i]"),
        Valid(
            """
            from .flows import Flow

            class Sylvester(Flow):
                def __init__(self, n):
                    super().__init__(n)
                    self.dense = nn.Parameter(torch.empty(n, n))
                    self.register_buffer("mask", torch.ones(n, n))

                def call(self, x: torch.Tensor):
                    return torch.eye(8, device=x.device) @ (self.dense * self.mask)
            """
        ),
        Valid(
            """
            def start(ids: torch.Tensor | None = None):
                first = torch.full((len(ids), 1), 3, device=ids.device)
                return torch.cat([torch.full_like(ids, fill_value=7), first], dim=1)
            """
        ),
        Valid(
            """
            from .detection import Detector

            class Order(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.embed = nn.Embedding(3, 4)

                def forward(self, labels):
                    pad = torch.zeros(8, 1, 4, device=labels.device)
                    return torch.cat([pad, self.embed(labels)], dim=1)

            class Ordered(Detector):
                def __init__(self):
                    super().__init__()
                    self.order = Order()

                def forward(self, x):
                    return self.order(labels=x.argmax(-1))
            """
        ),
        Valid("x = torch.ones(3).cuda()\ny = torch.ones(3, device=x.device)\nx + y"),
        Valid("x = torch.ones(3).cuda()\ny = x * torch.tensor(2.0)"),
        Valid("def f(x, y):\n    return F.mse_loss(x.cuda(), y)"),
        Valid("x = torch.ones(3).cuda()\nx[torch.tensor([0, 2])]"),
        Valid("x = torch.ones(3)\nif torch.cuda.is_available():\n    x = x.cuda()\nx + torch.ones(3)"),
        Valid(
            """
            def train(model, loader, device):
                for x, y in loader:
                    x = x.to(device)
                    loss = F.cross_entropy(model(x).cpu(), y)
                    loss.backward()
            """
        ),
        Valid(
            """
            def train(model, loader, device):
                for x, y in loader:
                    x, y = x.to(device), y.to(device)
                    loss = F.cross_entropy(model(x), y)
                    loss.backward()
            """
        ),
        Valid(
            """
            import pytest
            import torch

            with pytest.raises(RuntimeError):
                torch.ones(2).cuda() + torch.ones(2)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            labels = torch.randint(0, 4, (8,)).cuda()
            one_hot = torch.eye(4)[labels]
            """,
            """
            labels = torch.randint(0, 4, (8,)).cuda()
            one_hot = torch.eye(4, device=labels.device)[labels]
            """,
            at=(2, 10, 2, 22),
        ),
        Invalid(
            "pred = torch.randn(8, 3, device='cuda')\ntarget = torch.randint(0, 3, (8,))\n"
            "F.cross_entropy(pred, target)",
            "pred = torch.randn(8, 3, device='cuda')\ntarget = torch.randint(0, 3, (8,))\n"
            "F.cross_entropy(pred, target.to(pred.device))",
            at=(3, 22, 3, 28),
        ),
        Invalid(
            "def f(n):\n    x = torch.ones(n).cuda()\n    return (x.exp() + (torch.ones(n) * 2))",
            'def f(n):\n    x = torch.ones(n).cuda()\n    return (x.exp() + ((torch.ones(n) * 2).to("cuda")))',
        ),
        Invalid(
            "def f(n, device):\n    x = torch.ones(n, device=device)\n    return torch.cat([x, torch.zeros(1)])",
            "def f(n, device):\n    x = torch.ones(n, device=device)\n"
            "    return torch.cat([x, torch.zeros(1, device=x.device)])",
            severity="warning",
        ),
        Invalid(
            "def single(x, shape, device):\n    x = torch.rand(shape, device=device)\n"
            "    return torch.where(x > 0.5, torch.ones(shape), torch.zeros(shape))",
            "def single(x, shape, device):\n    x = torch.rand(shape, device=device)\n"
            "    return torch.where(x > 0.5, torch.ones(shape, device=device), torch.zeros(shape, device=device))",
            severity="warning",
        ),
        Invalid(
            """
            def train(model, loader, optimizer, device):
                model.to(device)
                for images, labels in loader:
                    images = images.to(device)
                    optimizer.zero_grad()
                    logits = model(images)
                    loss = F.cross_entropy(logits, labels)
                    loss.backward()
                    optimizer.step()
            """,
            """
            def train(model, loader, optimizer, device):
                model.to(device)
                for images, labels in loader:
                    labels = labels.to(device)
                    images = images.to(device)
                    optimizer.zero_grad()
                    logits = model(images)
                    loss = F.cross_entropy(logits, labels)
                    loss.backward()
                    optimizer.step()
            """,
            severity="warning",
        ),
        Invalid(
            """
            from torch.utils.data import DataLoader
            import torch
            import torch.nn as nn

            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).to(device)
            criterion = nn.CrossEntropyLoss()
            for step, (x, y) in enumerate(DataLoader(data, batch_size=32)):
                out = model(x.to(device))
                loss = criterion(out, y)
                loss.backward()
            """,
            """
            from torch.utils.data import DataLoader
            import torch
            import torch.nn as nn

            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).to(device)
            criterion = nn.CrossEntropyLoss()
            for step, (x, y) in enumerate(DataLoader(data, batch_size=32)):
                y = y.to(device)
                out = model(x.to(device))
                loss = criterion(out, y)
                loss.backward()
            """,
            severity="warning",
        ),
    ]

    def visit_mismatch(self, event: DeviceMismatch, ctx: Context) -> Iterator[Finding]:
        """An operation on tensors of which the devices are known."""
        if event.call is not None and event.call.module is not None and event.call.module.device is not None:
            return
        operands = operands_of(event, ctx)
        wrong = _wrong_one(event, operands)
        if wrong is None or belongs_to_module(wrong, ctx) or is_expected(event.node, ctx):
            return
        other = next(o for o in operands if o.device != wrong.device)
        beside = [o for o in operands if o.device == wrong.device and o is not wrong and o.device == "cpu"]
        chosen = next((o.device for o in operands if o.device[0] == "$" or o.device == "auto"), other.device)
        message = (
            f"{event.operation} gets `{ctx.source_of(wrong.node)}` on {spoken(wrong.device)} and "
            f"`{ctx.source_of(other.node)}` on {spoken(other.device)}; it raises{unless(chosen)}"
        )
        yield ctx.finding(
            self,
            wrong.node,
            message,
            severity=None if event.certain and "auto" not in event.devices else "warning",
            fixes=[self._fix(wrong, other, beside, ctx)],
        )

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        """A loss of a model's output whose target has been left where the loader put it."""
        call = ctx.call(node)
        target = call.operand("target") if call is not None else None
        given = call.operand("input") if call is not None else None
        loop = loader_loop(node, ctx)
        if call is None or given is None or not isinstance(target, ast.Name) or loop is None:
            return
        moved = _moved_input(given, target, loop, ctx)
        if moved is None or _device(call, "input") == "cpu" or _device(call, "target") not in (None, "cpu"):
            return
        if _device(call, "input") and _device(call, "target"):
            return  # both are known: a mismatch tells of it
        name, device = moved
        text = device_expression(device, node, ctx)
        edit = move_at_head(loop, text, ctx) if text is not None else None
        yield ctx.finding(
            self,
            target,
            f"`{name}` is moved to {spoken(device)}, `{target.id}` stays on the CPU"
            f"{if_left_there(target, ctx) or ' (where the loader put it)'}; {call.operation} raises{unless(device)}",
            severity="warning",
            fixes=[ctx.fix(f"Move `{target.id}` too", edit, safety="safe")],
        )

    def _fix(self, wrong: Operand, other: Operand, beside: list[Operand], ctx: Context) -> Fix | None:
        """Move the operand that is told, and those beside it that would raise next."""
        loop = loader_loop(wrong.node, ctx)
        device = device_expression(other.device, wrong.node, ctx)
        if loop is not None and device is not None and _is_untouched(wrong.node, loop):
            return ctx.fix("Move the loader's batch", move_at_head(loop, device, ctx), safety="safe")
        if is_written(ctx, wrong.node):
            return self._moved_to_target(wrong.node, other.node, ctx)
        if isinstance(other.node, ast.Name):
            device = f"{other.node.id}.device"
        if device is None:
            return None
        title = f"Move {'them' if beside else 'it'} to {spoken(other.device)}"
        edits = [_moved(operand.node, device, ctx) for operand in (wrong, *beside)]
        return ctx.fix(title, *edits, safety="safe")

    def _moved_to_target(self, target: ast.expr, other: ast.expr, ctx: Context) -> Fix | None:
        """Move the other operand of a write in place: what is written stays where it is, as what it is."""
        if not isinstance(target, ast.Name) or isinstance(ctx.parent(target), ast.keyword):
            return None
        moved = converted(ctx, other, f"to({target.id}.device)")
        return ctx.fix(f"Move it to the device of `{target.id}`", moved, safety="safe")


def _moved(node: ast.expr, device: str, ctx: Context) -> Edit | None:
    if isinstance(node, ast.Call) and is_plain_factory(ctx.call(node)):
        return with_keyword(ctx, node, "device", device)
    return converted(ctx, node, f"to({device})")


def _is_untouched(node: ast.expr, loop: ast.For | ast.AsyncFor) -> bool:
    return isinstance(node, ast.Name) and node.id in set(unpacked_names(loop)) - touched_names(loop.body)


def _wrong_one(event: DeviceMismatch, operands: list[Operand]) -> Operand | None:
    """Return the operand that is on the wrong device: the target of a loss, else what is on the CPU."""
    if len({operand.device for operand in operands}) < 2:
        return None
    if event.operation in LOSSES:
        return next((o for o in operands[1:] if o.device != operands[0].device), None)
    on_cpu = [operand for operand in operands if operand.device == "cpu"]
    return on_cpu[0] if on_cpu else next(o for o in operands if o.device != operands[0].device)


def _device(call: TorchCall, name: str) -> str | None:
    value = call.value(name)
    return value.device if isinstance(value, Tensor) else None


def _moved_input(
    given: ast.expr, target: ast.Name, loop: ast.For | ast.AsyncFor, ctx: Context
) -> tuple[str, str] | None:
    """Return the part of the batch that the loop moves for the model, and where to."""
    names = unpacked_names(loop)
    if target.id not in names or target.id in touched_names(loop.body) or batches_move_unseen(ctx):
        return None
    for statement in loop.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute() as method) as move):
                device = _destination(move, method, ctx)
                if name in names and ctx.text(method.value) == name and device and _computed_from(given, name, loop):
                    return name, device
            case _:
                pass
    return None


def _destination(move: ast.Call, method: ast.Attribute, ctx: Context) -> str | None:
    if method.attr == "cuda":
        return "cuda"
    device = device_of(ctx, move.args[0]) if method.attr == "to" and move.args else None
    return None if device == "cpu" else device


def _computed_from(given: ast.expr, name: str, loop: ast.For | ast.AsyncFor) -> bool:
    """Say whether a loss's input is a call on a name, right there or assigned once in the loop."""
    if isinstance(given, ast.Name):
        values = [
            s.value
            for s in loop.body
            if isinstance(s, ast.Assign) and [ast.unparse(t) for t in s.targets] == [given.id]
        ]
        if len(values) != 1:
            return False
        given = values[0]
    if not isinstance(given, ast.Call) or any(
        isinstance(n, ast.Attribute) and n.attr in ("cpu", "to", "cuda") for n in walk(given)
    ):
        return False
    return any(isinstance(argument, ast.Name) and argument.id == name for argument in given.args)
