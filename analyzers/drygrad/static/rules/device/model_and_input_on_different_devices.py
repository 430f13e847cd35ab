"""Rule DG201: a model and its input on different devices."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.conversions import converted
from drygrad.static.editing import with_keyword
from drygrad.static.expected_errors import is_expected
from drygrad.static.facts.iteration import contained_modules
from drygrad.static.facts.operations import MODULE_OPERATIONS, PARAMETERLESS
from drygrad.static.facts.transfer import same_device
from drygrad.static.facts.values import UNKNOWN, Object, Tensor, Value, element_of
from drygrad.static.rules.device.batches import (
    batches_move_unseen,
    if_left_there,
    loader_loop,
    move_at_head,
    moved_model,
    touched_names,
    unpacked_names,
)
from drygrad.static.rules.device.mismatches import module_method
from drygrad.static.rules.device.placement import (
    device_expression,
    is_accelerator,
    is_plain_factory,
    spoken,
    unless,
)
from drygrad.static.tree import remembered, walk


@dataclass(frozen=True)
class _Meeting:
    """A model on one device that is given an input on another."""

    given: ast.expr
    model_device: str
    input_device: str
    certain: bool = True
    moved_at: ast.expr | None = None
    constructed_at: ast.expr | None = None


class ModelAndInputOnDifferentDevices(Rule):
    """
    ## What it does
    Finds a model called with a tensor on another device: the model was moved to the GPU, but the batch is still on the
    CPU, where data loaders put it.

    ## Why is this bad?
    The first layer raises "Expected all tensors to be on the same device". If the device is chosen at run time, the
    code works on a machine without a GPU and fails on every other.

    ## Example
    ```python
    model.to(device)
    for images, labels in loader:
        loss = criterion(model(images), labels)
    ```
    Use instead:
    ```python
    model.to(device)
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        loss = criterion(model(images), labels)
    ```

    ## Fix safety
    Safe for inputs: either the code raised before, or everything is on the CPU and `.to()` has no effect. Unsafe if the
    model is what has to move.
    """

    code, name, since = "DG201", "model-and-input-on-different-devices", "0.1"
    severity = "error"
    VALID = [
        Valid("model = nn.Linear(3, 2).cuda()\nmodel(torch.randn(4, 3).cuda())"),
        Valid("model = nn.DataParallel(nn.Linear(3, 2)).cuda()\nmodel(torch.randn(4, 3))"),
        Valid("model = nn.Linear(3, 2)\nif torch.cuda.is_available():\n    model.cuda()\nmodel(torch.randn(4, 3))"),
        Valid(
            "def run(model, loader, device):\n    model.to(device)\n"
            "    for batch in loader:\n        yield model(batch)"
        ),
        Valid(
            """
            def train(model, loader, device):
                model.to(device)
                for x, y in loader:
                    x = x.to(device)
                    yield model(x)
            """
        ),
        Valid(
            """
            def train(model, loader, device):
                model.to(device)
                for x, y in loader:
                    x, y = (t.to(device) for t in (x, y))
                    yield model(x)
            """
        ),
        Valid(
            """
            from accelerate import Accelerator

            def train(model, loader):
                accelerator = Accelerator()
                model.to(accelerator.device)
                model, loader = accelerator.prepare(model, loader)
                for x, y in loader:
                    yield model(x)
            """
        ),
        Valid(
            """
            import torch
            from torch import nn

            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(3, 2)

                def forward(self, x):
                    x = x.to(self.fc.weight.device)
                    return self.fc(x)

            model = Net().to("cuda")
            model(torch.randn(4, 3))
            """
        ),
        Valid(
            """
            def train(model, loader, device):
                model.to(device)
                model = nn.DataParallel(model)
                for x, y in loader:
                    yield model(x)
            """
        ),
        Valid(
            """
            class Toy(nn.Module):
                def __init__(self, size, device=None):
                    super().__init__()
                    self.device = device
                    self.layer = nn.Linear(size, size, device=device)

                def forward(self, x):
                    return self.layer(x)

            def check(device):
                model = Toy(4, device=device)
                return model(torch.randn(2, 4, device=model.device)), Toy(4, "cuda")(torch.randn(2, 4, device="cuda"))
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            def test(args, test_loader):
                net = nn.Linear(3, 2).to(args.device)
                for x, y in test_loader:
                    print((net(x).argmax(1) == y).float().mean())
            """,
            """
            def test(args, test_loader):
                net = nn.Linear(3, 2).to(args.device)
                for x, y in test_loader:
                    x, y = x.to(args.device), y.to(args.device)
                    print((net(x).argmax(1) == y).float().mean())
            """,
            severity="warning",
        ),
        Invalid(
            "model = nn.Linear(3, 2).cuda()\nmodel(torch.randn(4, 3))",
            'model = nn.Linear(3, 2).cuda()\nmodel(torch.randn(4, 3, device="cuda"))',
            at=(2, 6, 2, 23),
        ),
        Invalid(
            "model = nn.Linear(3, 2)\nx = torch.randn(4, 3, device='cuda')\nmodel(x)",
            "model = nn.Linear(3, 2).to(\"cuda\")\nx = torch.randn(4, 3, device='cuda')\nmodel(x)",
            at=(3, 6, 3, 7),
        ),
        Invalid(
            """
            def train(model, loader, optimizer, device):
                model.to(device)
                model.train()
                for images, labels in loader:
                    optimizer.zero_grad()
                    loss = F.cross_entropy(model(images), labels)
                    loss.backward()
                    optimizer.step()
            """,
            """
            def train(model, loader, optimizer, device):
                model.to(device)
                model.train()
                for images, labels in loader:
                    images, labels = images.to(device), labels.to(device)
                    optimizer.zero_grad()
                    loss = F.cross_entropy(model(images), labels)
                    loss.backward()
                    optimizer.step()
            """,
            at=(6, 37, 6, 43),
            severity="warning",
        ),
        Invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))

                def forward(self, x):
                    return self.body(x)

            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            model = Net().to(device)
            for x, y in DataLoader(data, batch_size=4, shuffle=True):
                out = model(x)
            """,
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))

                def forward(self, x):
                    return self.body(x)

            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            model = Net().to(device)
            for x, y in DataLoader(data, batch_size=4, shuffle=True):
                x = x.to(device)
                out = model(x)
            """,
            severity="warning",
        ),
        Invalid(
            """
            class Trainer:
                def __init__(self, model, loader):
                    self.model = model.cuda()
                    self.loader = loader

                def evaluate(self):
                    for step, (image, label) in enumerate(self.loader):
                        yield self.model(image).argmax(1) == label
            """,
            """
            class Trainer:
                def __init__(self, model, loader):
                    self.model = model.cuda()
                    self.loader = loader

                def evaluate(self):
                    for step, (image, label) in enumerate(self.loader):
                        image, label = image.to("cuda"), label.to("cuda")
                        yield self.model(image).argmax(1) == label
            """,
            severity="warning",
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        meeting = _constructed(node, ctx) or _received(node, ctx)
        if meeting is None or is_expected(node, ctx):
            return
        chosen = meeting.input_device if meeting.model_device == "cpu" else meeting.model_device
        given, model = ctx.source_of(meeting.given), ctx.source_of(node.func)
        certain = meeting.certain and is_accelerator(chosen)
        yield ctx.finding(
            self,
            meeting.given,
            f"`{model}` is on {spoken(meeting.model_device)}, `{given}` on {spoken(meeting.input_device)}"
            f"{if_left_there(meeting.given, ctx)}; the call raises{unless(chosen)}",
            severity=None if certain else "warning",
            related=[("the model is moved here", meeting.moved_at)] if meeting.moved_at is not None else [],
            fixes=[_fix(node, meeting, ctx)],
        )


def _constructed(node: ast.Call, ctx: Context) -> _Meeting | None:
    """Return the meeting of a model that the file constructs with a tensor of known device."""
    model = ctx.value(node.func)
    if not isinstance(model, Object) or model.device is None or not _has_parameters(model, ctx):
        return None
    if module_method(node, ctx) is not None or _moves_its_input(model):
        return None
    given = next((a for a in node.args[: 1 if model.cls else None] if _is_elsewhere(ctx.value(a), model.device)), None)
    tensor = ctx.tensor(given)
    if given is None or tensor is None or tensor.device is None:
        return None
    if model.device == "cpu":
        here = model.node is not None and ctx.function(model.node) is ctx.function(node)
        return _Meeting(given, "cpu", tensor.device, constructed_at=model.node) if here else None
    return _Meeting(given, model.device, tensor.device)


def _is_elsewhere(value: Value, device: str) -> bool:
    if not isinstance(value, Tensor) or value.device is None:
        return False
    named = "cpu" in (device, value.device) and "$" in device[0] + value.device[0]
    return named or same_device(device, value.device) is False


def _has_parameters(model: Object, ctx: Context) -> bool:
    """Say whether a module has parameters that its inputs must meet; wrappers that move their inputs count as none."""
    if model.cls is not None:
        held = ctx.facts.attributes(model).values()
        return any(isinstance(v, Object) and v.is_module and _has_parameters(v, ctx) for v in held)
    parts = contained_modules(model)
    if parts is not None:
        inner = parts.items if parts.items is not None else (element_of(parts),)
        return any(isinstance(part, Object) and _has_parameters(part, ctx) for part in inner)
    package, _, name = model.type.rpartition(".")
    return package == "torch.nn" and name in MODULE_OPERATIONS and name not in PARAMETERLESS


def _moves_its_input(model: Object) -> bool:
    """Say whether a method of a model's class moves anything."""
    classes = list(model.cls.lineage()) if model.cls is not None else []
    return any(name for cls in classes for name in _moves_in(cls.node))


@remembered
def _moves_in(node: ast.AST) -> Iterator[str]:
    for inner in walk(node):
        if isinstance(inner, ast.Attribute) and inner.attr in ("to", "cuda", "cpu", "register_forward_pre_hook"):
            yield inner.attr


def _received(node: ast.Call, ctx: Context) -> _Meeting | None:
    """Return the meeting of a moved model with a batch that the loop leaves where the loader put it."""
    model, given = ctx.text(node.func), node.args[0] if node.args else None
    if model is None or not isinstance(given, ast.Name):
        return None
    loop = loader_loop(node, ctx)
    if loop is None or given.id not in unpacked_names(loop) or given.id in touched_names(loop.body):
        return None
    value = ctx.value(given)
    if (isinstance(value, Tensor) and value.device != "cpu") or batches_move_unseen(ctx):
        return None
    known = ctx.value(node.func)
    if isinstance(known, Object):
        follows = known.device not in (None, "cpu") and _has_parameters(known, ctx) and not _moves_its_input(known)
        return _Meeting(given, known.device, "cpu", certain=False) if follows and known.device else None
    moved = moved_model(model, node, ctx) if known is UNKNOWN else None
    return _Meeting(given, moved[1], "cpu", certain=False, moved_at=moved[0]) if moved is not None else None


def _fix(node: ast.Call, meeting: _Meeting, ctx: Context) -> Fix | None:
    if meeting.model_device == "cpu":
        device = device_expression(meeting.input_device, node, ctx)
        place = meeting.constructed_at
        return ctx.fix("Move the model", ctx.insert_after(place, f".to({device})")) if place and device else None
    found = device_expression(meeting.model_device, node, ctx)
    device = found or f"next({ctx.source_of(node.func)}.parameters()).device"
    title = f"Move the input to {spoken(meeting.model_device)}"
    loop, given = loader_loop(node, ctx), meeting.given
    if loop is not None and isinstance(given, ast.Name) and given.id in unpacked_names(loop):
        return ctx.fix(title, move_at_head(loop, device, ctx), safety="safe")
    if isinstance(given, ast.Call) and is_plain_factory(ctx.call(given)):
        return ctx.fix(title, with_keyword(ctx, given, "device", device), safety="safe")
    return ctx.fix(title, converted(ctx, given, f"to({device})"), safety="safe")
