"""Rule DG202: the result of moving a tensor thrown away."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Edit, Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.expected_errors import is_expected
from drygrad.static.facts.values import UNKNOWN, Function, Tensor
from drygrad.static.rules.device.batches import loader_loop, unpacked_names
from drygrad.static.rules.device.placement import device_of, is_moved_elsewhere, spoken
from drygrad.static.rules.device.returning import returned_move
from drygrad.static.tree import walk

_MOVES = frozenset({"to", "cuda", "cpu"})
_CASTS = frozenset({"half", "float", "double", "bfloat16", "type"})
_KEYS = ("key", "name")
"""What a loop over the values of a dict may call its keys."""

_BATCH = re.compile(r"^(mini_?)?(batch|inputs?|samples?|encod(ing|ed)s?)(_\w+)?$")


class ToResultDiscarded(Rule):
    """
    ## What it does
    Finds `x.to(device)`, `x.cuda()`, `x.cpu()` or `x.half()` on a tensor as a statement, and calls of a function in the
    file that only returns the moved tensors.

    ## Why is this bad?
    Modules move in place, tensors do not: the method returns a copy, which is discarded here. `x` keeps its device and
    dtype, and the next operation raises or computes in the old dtype.

    ## Example
    ```python
    for images, labels in DataLoader(dataset):
        images.to(device)
        loss = criterion(model(images), labels)
    ```
    Use instead:
    ```python
    for images, labels in DataLoader(dataset):
        images = images.to(device)
        loss = criterion(model(images), labels)
    ```

    ## Fix safety
    Unsafe: code that worked with the old device or dtype now gets the new one.
    """

    code, name, since = "DG202", "to-result-discarded", "0.1"
    VALID = [
        Valid("def f(model):\n    model = model.half()\n    model.to('cuda')"),
        Valid(
            """
            from .encoders import Encoder

            class Folding(nn.Module):
                def __init__(self, config):
                    super().__init__()
                    self.encoder = Encoder(config)
                    self.encoder.requires_grad_(False)
                    if config.half:
                        self.encoder.half()
            """
        ),
        Valid("x = torch.ones(3)\nx = x.to('cuda')"),
        Valid("model = nn.Linear(3, 4)\nmodel.to('cuda')\nmodel.half()\nmodel.cuda()"),
        Valid("def move(model, thing, device):\n    model.to(device)\n    thing.cuda()"),
        Valid("torch.zeros(1).cuda()  # makes the CUDA context"),
        Valid(
            """
            def run(loader, device):
                for batch in loader:
                    batch.to(device)  # a batch of some kinds moves in place
                    yield batch
            """
        ),
        Valid(
            """
            import pytest
            import torch

            def test_unknown_device():
                x = torch.ones(3)
                with pytest.raises(RuntimeError):
                    x.to("cuda:99")
            """
        ),
        Valid(
            """
            def move(item, device):
                if isinstance(item, torch.Tensor):
                    return item.to(device)
                for key in item:
                    item[key] = move(item[key], device)
                return item

            def run(loader, device):
                for batch in loader:
                    move(batch, device)  # a dict is changed in place
                    yield batch
            """
        ),
        Valid(
            """
            def place(item, device):
                if isinstance(item, torch.Tensor):
                    return item.to(device)
                return item.to(device)

            place(network, "cuda")  # a module moves in place
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            from torch.utils.data import DataLoader
            import torch

            def run(model, data, device):
                for batch in DataLoader(data):
                    for name in batch.keys():
                        batch[name].to(device)
                    yield model(batch)
            """,
            """
            from torch.utils.data import DataLoader
            import torch

            def run(model, data, device):
                for batch in DataLoader(data):
                    for name in batch.keys():
                        batch[name] = batch[name].to(device)
                    yield model(batch)
            """,
        ),
        Invalid(
            """
            def move(item, device):
                if isinstance(item, torch.Tensor):
                    return item.to(device)
                if isinstance(item, dict):
                    for value in item.values():
                        move(value, device)
                return item
            """,
            """
            def move(item, device):
                if isinstance(item, torch.Tensor):
                    return item.to(device)
                if isinstance(item, dict):
                    for key, value in item.items():
                        item[key] = move(value, device)
                return item
            """,
        ),
        Invalid(
            """
            def run(model, batches, device):
                for batch in batches:
                    for key, value in batch.items():
                        value.to(device)
                    model(**batch)
            """,
            """
            def run(model, batches, device):
                for batch in batches:
                    for key, value in batch.items():
                        batch[key] = value.to(device)
                    model(**batch)
            """,
            at=(4, 12, 4, 28),
        ),
        Invalid(
            """
            def move(batch, device):
                if torch.is_tensor(batch):
                    return batch.to(device)
                if isinstance(batch, dict):
                    return {key: move(value, device) for key, value in batch.items()}
                if isinstance(batch, list):
                    for item in batch:
                        move(item, device)
                return batch
            """,
            at=(8, 12, 8, 30),
        ),
        Invalid(
            """
            def move_to(batch, device):
                for key, value in batch.items():
                    if isinstance(value, torch.Tensor):
                        value.to(device)
                return batch
            """,
            """
            def move_to(batch, device):
                for key, value in batch.items():
                    if isinstance(value, torch.Tensor):
                        batch[key] = value.to(device)
                return batch
            """,
            at=(4, 12, 4, 28),
        ),
        Invalid(
            "x = torch.ones(3)\nx.to('cuda')  # to the GPU",
            "x = torch.ones(3)\nx = x.to('cuda')  # to the GPU",
            at=(2, 0, 2, 12),
        ),
        Invalid(
            "def f(x: torch.Tensor):\n    x.half()\n    return x",
            "def f(x: torch.Tensor):\n    x = x.half()\n    return x",
        ),
        Invalid(
            """
            def train(model, train_loader, optimizer, device):
                for step, (images, labels) in enumerate(train_loader):
                    images.to(device)
                    labels = labels.to(device)
                    loss = F.cross_entropy(model(images), labels)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            """
            def train(model, train_loader, optimizer, device):
                for step, (images, labels) in enumerate(train_loader):
                    images = images.to(device)
                    labels = labels.to(device)
                    loss = F.cross_entropy(model(images), labels)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            at=(3, 8, 3, 25),
        ),
        Invalid(
            """
            from torch.utils.data import DataLoader
            import torch

            def evaluate(data, device):
                for batch in DataLoader(data, batch_size=8):
                    batch["image"].to(
                        device, non_blocking=True
                    )
                    yield batch
            """,
            """
            from torch.utils.data import DataLoader
            import torch

            def evaluate(data, device):
                for batch in DataLoader(data, batch_size=8):
                    batch["image"] = batch["image"].to(
                        device, non_blocking=True
                    )
                    yield batch
            """,
        ),
    ]

    def visit_expr(self, node: ast.Expr, ctx: Context) -> Iterator[Finding]:
        if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name):
            yield from self._of_function(node.value, ctx)
        if not isinstance(node.value, ast.Call) or not isinstance(node.value.func, ast.Attribute):
            return
        call, receiver, method = node.value, node.value.func.value, node.value.func.attr
        if method not in _MOVES | _CASTS or not _is_place(receiver) or is_expected(node, ctx):
            return
        tensor = ctx.tensor(receiver)
        if tensor is not None and _may_be_module(tensor):
            return
        if tensor is None and not (method in _MOVES and _is_batch_item(receiver, node, ctx)):
            return
        text = ctx.source_of(receiver)
        yield ctx.finding(
            self,
            call,
            f"`{text}.{method}(...)` returns a copy that is discarded; {_what_stays(tensor, text, method)}",
            fixes=[self._fix(call, receiver, tensor, ctx)],
        )

    def _of_function(self, call: ast.Call, ctx: Context) -> Iterator[Finding]:
        function = ctx.value(call.func)
        if isinstance(function, Function) and isinstance(function.node, ast.FunctionDef) and call.args:
            moved = ctx.noted(returned_move, function.node)
            if moved is not None and not is_expected(call, ctx):
                text = f"`{ctx.source_of(call.func)}(...)`"
                stays = _what_stays(None, ctx.source_of(call.args[0]), "to")
                yield ctx.finding(
                    self,
                    call,
                    f"{text} returns moved copies that are discarded; {stays}",
                    related=[("moved here", moved)],
                    fixes=[_assigned(call, call.args[0], ctx)] if _is_place(call.args[0]) else [],
                )

    def _fix(self, call: ast.Call, receiver: ast.expr, tensor: Tensor | None, ctx: Context) -> Fix | None:
        if tensor is not None and tensor.parameter:
            return None
        if isinstance(receiver, ast.Subscript) and not (_has_text_key(receiver) or _has_key_of_loop(receiver, ctx)):
            return None
        return _assigned(call, receiver, ctx)


def _assigned(call: ast.Call, moved: ast.expr, ctx: Context) -> Fix | None:
    """Return the fix that puts a copy where the original came from: into the dict of a loop, or the name."""
    name = moved.id if isinstance(moved, ast.Name) else None
    for loop in ctx.loops(call) if name is not None else ():
        match loop:
            case ast.For(
                target=ast.Tuple(elts=[ast.Name(id=key), ast.Name(id=value)]),
                iter=ast.Call(func=ast.Attribute(value=ast.Name(id=holder), attr="items"), args=[]),
            ) if name == value:
                return _bound(call, f"{holder}[{key}]", ctx)
            case ast.For(
                target=ast.Name(id=value) as target,
                iter=ast.Call(func=ast.Attribute(value=ast.Name(id=holder), attr="values") as values, args=[]),
            ) if name == value:
                key = next((word for word in _KEYS if not _is_used(word, loop, ctx)), None)
                edits = [ctx.replace(target, f"{key}, {value}"), ctx.replace(values, f"{holder}.items")]
                return _bound(call, f"{holder}[{key}]", ctx, *edits) if key is not None else None
            case ast.For(target=target) if (
                name is not None and _binds(target, name) and not _is_read_behind(call, loop, name)
            ):
                return None
            case _:
                pass
    return _bound(call, ctx.source_of(moved), ctx)


def _bound(call: ast.Call, place: str, ctx: Context, *edits: Edit) -> Fix | None:
    return ctx.fix(f"Assign the result to `{place}`", *edits, ctx.insert_before(call, f"{place} = "))


def _is_used(name: str, node: ast.AST, ctx: Context) -> bool:
    names = (n.id for n in walk(ctx.function(node) or ctx.tree) if isinstance(n, ast.Name))
    return name in names


def _binds(target: ast.expr, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name for n in walk(target))


def _is_read_behind(call: ast.Call, loop: ast.For, name: str) -> bool:
    reads = (n for n in walk(loop) if isinstance(n, ast.Name) and n.id == name)
    return any(isinstance(n.ctx, ast.Load) and n.lineno > (call.end_lineno or call.lineno) for n in reads)


def _has_key_of_loop(node: ast.Subscript, ctx: Context) -> bool:
    """Say whether an item is that of a key which a loop takes from the same dict, or from a list of texts."""
    holder = ctx.text(node.value)
    for loop in ctx.loops(node):
        match loop:
            case ast.For(target=ast.Name(id=key), iter=source) if isinstance(node.slice, ast.Name):
                if key == node.slice.id:
                    return _are_keys(source, holder, ctx)
            case _:
                pass
    return False


def _are_keys(source: ast.expr, holder: str | None, ctx: Context) -> bool:
    match source:
        case ast.Call(func=ast.Name(id="list" | "sorted" | "tuple"), args=[inner], keywords=[]):
            return _are_keys(inner, holder, ctx)
        case ast.Call(func=ast.Attribute(value=owner, attr="keys"), args=[]):
            return ctx.text(owner) == holder
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
            return all(isinstance(e, ast.Constant) and isinstance(e.value, str) for e in elements)
        case _:
            return holder is not None and ctx.text(source) == holder


def _may_be_module(tensor: Tensor) -> bool:
    """Say whether it is what ``x.half()`` gave for an unknown x, which a module has as well."""
    call = tensor.origin.call if tensor.origin is not None else None
    return call is not None and not call.receiver_known and call.target in ("Tensor.half", "Tensor.bfloat16")


def _is_place(node: ast.expr) -> bool:
    """Say whether an expression is a name, attribute or item that a result could be assigned to."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, (ast.Name, ast.Attribute))
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and node.attr not in ("data", "grad"))


def _has_text_key(node: ast.Subscript) -> bool:
    return isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)


def _what_stays(tensor: Tensor | None, text: str, method: str) -> str:
    if tensor is not None and tensor.device is not None and method in _MOVES:
        return f"`{text}` stays on {spoken(tensor.device)}"
    return f"`{text}` itself stays {'where' if method in _MOVES else 'what'} it is"


def _is_value_of_batch(receiver: ast.Name, node: ast.stmt, ctx: Context) -> bool:
    """Say whether a name is a value of a dict that is a batch by its name: no dict of modules is called so."""
    for loop in ctx.loops(node)[:1]:
        match loop:
            case ast.For(
                target=ast.Name(id=value) | ast.Tuple(elts=[_, ast.Name(id=value)]),
                iter=ast.Call(func=ast.Attribute(value=ast.Name(id=holder), attr="items" | "values"), args=[]),
            ):
                return value == receiver.id and _BATCH.search(holder) is not None
            case _:
                pass
    return False


def _is_batch_item(receiver: ast.expr, node: ast.stmt, ctx: Context) -> bool:
    """Say whether a name is one of several that a loop unpacks the batches of a loader into."""
    loop = loader_loop(node, ctx)
    if not isinstance(receiver, ast.Name) or ctx.value(receiver) is not UNKNOWN:
        return False
    if _is_value_of_batch(receiver, node, ctx):
        return True
    if loop is None:
        return False
    assert isinstance(node, ast.Expr)
    assert isinstance(node.value, ast.Call)
    to_device = all(device_of(ctx, argument) is not None for argument in node.value.args[:1])
    found = receiver.id in unpacked_names(loop) and to_device
    return found and not is_moved_elsewhere(ctx) and not ctx.mentions("transformers")
