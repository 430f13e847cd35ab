"""What the rules of this family share: how devices are spoken of, and who moves data besides the file itself."""

from __future__ import annotations

import ast
import re

from drygrad.model import Edit, Position, Span
from drygrad.static.context import Context
from drygrad.static.facts.values import Constant, Device, Tensor

ACCELERATORS = frozenset({"cuda", "mps", "xpu", "hpu", "npu"})
_MOVERS = frozenset(
    "accelerate lightning pytorch_lightning fastai ignite composer catalyst skorch deepspeed torchtnt horovod "
    "colossalai torch_geometric dgl".split()
)
"""Packages that place batches and models on devices themselves, or whose batches move in place."""
_ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)
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
        return "the GPU where there is one"
    if device[0] == "$":
        return f"`{device[1:].partition('@')[0]}`"
    return device


def unless(device: str) -> str:
    """Return the condition under which an operation with a CPU tensor fails after all."""
    if device == "auto":
        return " where CUDA is available"
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
    for node in ast.walk(ctx.tree):
        match node:
            case ast.Import(names=names):
                packages = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module)):
                packages = [module]
            case _:
                continue
        if any(package.split(".")[0] in _MOVERS for package in packages):
            return True
    return bool(re.search(r"torch_xla|DeviceDataLoader|[Pp]refetcher|\.prepare\(|\.distribute\(", ctx.source.text))


def held_on_cpu(tensor: Tensor | None) -> bool:
    """Say whether a tensor is on the CPU and cannot be one without dimensions."""
    return tensor is not None and tensor.device == "cpu" and tensor.shape != ()


def operand_text(ctx: Context, node: ast.expr) -> str:
    """Return an expression's text, in parentheses where a method call could not follow it."""
    text = ctx.source_of(node)
    return text if isinstance(node, _ATOMS) else f"({text})"


def batch_targets(loop: ast.For | ast.AsyncFor) -> list[ast.expr]:
    """Return the names that a loop unpacks each batch into, past the count of an ``enumerate``."""
    target = loop.target
    if isinstance(loop.iter, ast.Call) and isinstance(loop.iter.func, ast.Name) and loop.iter.func.id == "enumerate":
        target = target.elts[1] if isinstance(target, ast.Tuple) and len(target.elts) == 2 else target
    return list(target.elts) if isinstance(target, (ast.Tuple, ast.List)) else [target]


def loops_over_loader(ctx: Context, loop: ast.For | ast.AsyncFor) -> bool:
    """Say whether a loop runs over a data loader: one that the file makes, or something called a loader."""
    iterated = loop.iter
    while isinstance(iterated, ast.Call) and iterated.args and _is_wrapper(iterated.func):
        iterated = iterated.args[0]
    name = ctx.text(iterated)
    return name is not None and re.search(r"loader(s|_\w+)?$|(^|_)dl$", name.lower()) is not None


def _is_wrapper(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in ("enumerate", "tqdm", "track", "trange")


def name_span(attribute: ast.Attribute, ctx: Context) -> Span:
    """Return the span of the name after the dot."""
    end = ctx.source.end(attribute)
    return Span(Position(end.line, end.column - len(attribute.attr)), end)


def removed_call(node: ast.Call, ctx: Context) -> Edit | None:
    """Return the edit that removes a method call and leaves its receiver."""
    if not isinstance(node.func, ast.Attribute):
        return None
    return Edit(Span(ctx.source.end(node.func.value), ctx.source.end(node)), "")


def with_keyword(call: ast.Call, text: str, ctx: Context) -> Edit | None:
    """Return the edit that adds a keyword argument at the end of a call, in the layout that the call has."""
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    if not arguments or isinstance(arguments[-1], ast.GeneratorExp):
        return None
    last = max(arguments, key=lambda argument: (argument.end_lineno or 0, argument.end_col_offset or 0))
    end = ctx.source.end(last)
    rest = ctx.source.slice(Span(end, ctx.source.end(call)))
    closing = re.match(r"(\s*\)*?)(\s*,)?(\s*)\)$", rest)
    if closing is None:
        return None
    if closing[2] is None:
        return Edit(Span(end, end), f", {text}")
    comma = ctx.source.position(ctx.source.offset(end) + closing.end(2))
    if "\n" in closing[3]:
        indentation = ctx.source.indentation(last.lineno)
        return Edit(Span(comma, comma), f"{ctx.source.newline}{indentation}{text},")
    return Edit(Span(comma, comma), f" {text},")
