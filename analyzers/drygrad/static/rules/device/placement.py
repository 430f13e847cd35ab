"""What the rules of this family share: how devices are spoken of, and who moves data besides the file itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Edit, Position, Span
from drygrad.static.context import Context
from drygrad.static.editing import binds_itself
from drygrad.static.facts.values import Constant, Device, TorchCall
from drygrad.static.syntax import parameter_names
from drygrad.static.tree import walk

ACCELERATORS = frozenset({"cuda", "mps", "xpu", "hpu", "npu"})
EXACT_FACTORIES = frozenset({"zeros", "ones", "full", "empty", "eye", "tril_indices", "triu_indices"})
"""Factories that give the same numbers on every device."""
_OTHER_FACTORIES = frozenset({"arange", "linspace", "logspace", "range", "rand", "randn", "randint", "randperm"})
_MOVERS = frozenset(
    "accelerate lightning pytorch_lightning fastai ignite composer catalyst skorch deepspeed torchtnt horovod "
    "colossalai torch_geometric dgl".split()
)
"""Packages that place batches and models on devices themselves, or whose batches move in place."""
_MOVES_BATCHES = re.compile(r"torch_xla|DeviceDataLoader|[Pp]refetcher|\.prepare\(|\.distribute\(")
_OWNERS = frozenset({"self", "args", "opt", "opts", "cfg", "config", "hparams", "params", "options", "flags"})


def is_accelerator(device: str | None) -> bool:
    """Say whether a device is a GPU or the like for certain."""
    return device is not None and device.split(":")[0] in ACCELERATORS


def is_chosen(device: str | None) -> bool:
    """Say whether a device is one that the user chooses: ``device``, ``args.device``, CUDA where available."""
    if device is None or device[0] != "$":
        return device == "auto"
    owner, _, last = device[1:].partition("@")[0].rpartition(".")
    return last == "device" and (not owner or owner in _OWNERS)


def spoken(device: str) -> str:
    """Return a device as a sentence says it."""
    if device == "cpu":
        return "the CPU"
    if device == "auto":
        return "the GPU if there is one"
    if device[0] == "$":
        return f"`{device[1:].partition('@')[0]}`"
    return device


def unless(device: str) -> str:
    """Return the condition under which an operation with a CPU tensor fails after all."""
    if device == "auto":
        return " if CUDA is available"
    return f" unless {spoken(device)} is the CPU" if device[0] == "$" else ""


def device_of(ctx: Context, node: ast.expr) -> str | None:
    """Return the device that an argument names."""
    value = ctx.value(node)
    if isinstance(value, Device):
        return value.name
    if isinstance(value, Constant) and isinstance(value.value, str):
        kind = value.value.split(":")[0]
        return value.value if kind == "cpu" or kind in ACCELERATORS else None
    return None


def is_moved_elsewhere(ctx: Context) -> bool:
    """Say whether the file uses a framework that moves data and models itself."""
    return ctx.derived(_is_moved_elsewhere)


def _is_moved_elsewhere(ctx: Context) -> bool:
    imported = [alias.name for node in ctx.nodes(ast.Import) for alias in node.names]
    imported += [node.module for node in ctx.nodes(ast.ImportFrom) if node.module]
    if any(name.split(".")[0] in _MOVERS for name in imported):
        return True
    return ctx.mentions(_MOVES_BATCHES)


def name_span(attribute: ast.Attribute, ctx: Context) -> Span:
    """Return the span of the name after the dot."""
    end = ctx.source.end(attribute)
    return Span(Position(end.line, end.column - len(attribute.attr)), end)


def removed_call(node: ast.Call, ctx: Context) -> Edit | None:
    """Return the edit that removes a method call and leaves its receiver."""
    if not isinstance(node.func, ast.Attribute):
        return None
    if binds_itself(ctx, node, node.func.value):
        return ctx.delete_statement(ctx.statement(node))
    return Edit(Span(ctx.source.end(node.func.value), ctx.source.end(node)), "")


def device_expression(device: str, node: ast.AST, ctx: Context) -> str | None:
    """Return text that means a device at a node; None where no name in scope is known to."""
    if device[0] != "$" and device != "auto":
        return f'"{device}"'
    name = next((name for name, meant in _named_devices(node, ctx) if meant == device), None)
    if name is not None:
        return name
    owner, _, rest = device[1:].partition(".")
    function = ctx.function(node)
    given = function is not None and owner in parameter_names(function)
    return device[1:] if rest and (given or owner in ctx.facts.globals) else None


def _named_devices(node: ast.AST, ctx: Context) -> Iterator[tuple[str, str]]:
    """Yield the names that stand for a device at a node: of the function around it, then of the module."""
    function = ctx.function(node)
    if function is not None:
        yield from ((name, f"${name}") for name in parameter_names(function))
        for inner in walk(function):
            value = ctx.value(inner) if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store) else None
            if isinstance(inner, ast.Name) and isinstance(value, Device) and ctx.function(inner) is function:
                yield inner.id, value.name
    yield from ((name, value.name) for name, value in ctx.facts.globals.items() if isinstance(value, Device))


def is_plain_factory(made: TorchCall | None) -> bool:
    """Say whether a call makes a tensor on the default device, and could be told another one."""
    if made is None or made.operation not in EXACT_FACTORIES | _OTHER_FACTORIES or made.form != "function":
        return False
    hidden = any(keyword.arg is None for keyword in made.node.keywords)
    return not hidden and not {"device", "requires_grad", "out", "pin_memory"} & set(made.keywords)
