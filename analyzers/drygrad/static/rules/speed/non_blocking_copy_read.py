"""Rule DG605: a copy to the CPU that is read before it has arrived."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import cast

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.tensors import device_name
from drygrad.static.facts.values import Reference, Sequence, Tensor, TorchCall
from drygrad.static.syntax import called, own_nodes

_WAITS = frozenset({"synchronize", "wait", "item", "tolist", "cpu"})
_READS = frozenset({"item", "tolist", "numpy", "__array__"})
_READERS = frozenset({"print", "float", "int", "bool", "str", "repr", "list", "max", "min", "sum", "sorted"})
_NO_READS = frozenset({"to", "cuda", "copy", "pin_memory", "view", "reshape", "detach", "record_stream", "is_pinned"})


class NonBlockingCopyRead(Rule):
    """
    ## What it does
    Finds tensors copied from the GPU with `non_blocking=True` and read on the CPU before anything synchronizes.

    ## Why is this bad?
    `x.to("cpu", non_blocking=True)` returns immediately, while the GPU has yet to write the result. The CPU reads
    whatever bytes are there: occasionally wrong numbers, without an error. Copies to the GPU are safe, because the GPU
    works in the order of its queue, unless the CPU overwrites the source too early.

    ## Example
    ```python
    def report(logits: torch.Tensor):
        predictions = logits.to("cpu", non_blocking=True)
        print(predictions.tolist())
    ```
    Use instead:
    ```python
    def report(logits: torch.Tensor):
        predictions = logits.to("cpu")
        print(predictions.tolist())
    ```
    or call `torch.cuda.synchronize()` (or wait for an event) between several copies and the first reading.

    ## Fix safety
    Safe: the copy is the same, and complete when it is read.

    ## References
    - [Good usage of non_blocking and pin_memory](https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html)
    """

    code, name, since = "DG605", "non-blocking-copy-read", "0.1"
    severity = "warning"
    calls = frozenset({"to"})
    VALID = [
        Valid("""
            def f(x: torch.Tensor):
                y = x.to("cpu", non_blocking=True)
                torch.cuda.synchronize()
                return y.numpy()
        """),
        Valid("""
            def f(x: torch.Tensor, stream: torch.cuda.Stream):
                y = x.to("cpu", non_blocking=True)
                stream.synchronize()
                print(y)
        """),
        Valid("def f(x: torch.Tensor):\n    y = x.to('cuda', non_blocking=True)\n    print(y)"),
        Valid("def f(x: torch.Tensor):\n    return x.to('cpu', non_blocking=True)"),
        Valid("x = torch.ones(3)\ny = x.to('cpu', non_blocking=True)\nprint(y)"),
        Valid("def f(x: torch.Tensor):\n    y = x.to('cpu', non_blocking=True)\n    wait_for_copies()\n    print(y)"),
        Valid("def f(x: torch.Tensor):\n    y = x.to('cpu', non_blocking=True)\n    print(y.shape, y.dtype)"),
    ]
    INVALID = [
        Invalid(
            'def f(x: torch.Tensor):\n    y = x.to("cpu", non_blocking=True)\n    return y.numpy()',
            'def f(x: torch.Tensor):\n    y = x.to("cpu")\n    return y.numpy()',
            at=(3, 11, 3, 12),
        ),
        Invalid(
            'def f(x: torch.Tensor):\n    return x.to(non_blocking=True, device="cpu").tolist()',
            'def f(x: torch.Tensor):\n    return x.to(device="cpu").tolist()',
        ),
        Invalid(
            """
            @torch.no_grad()
            def evaluate(model: nn.Module, loader):
                correct = 0
                for images, labels in loader:
                    logits = model(images.cuda(non_blocking=True))
                    scores = logits.softmax(1).to(
                        torch.device("cpu"),
                        non_blocking=True,  # overlap
                    )
                    correct += (scores.argmax(1) == labels).sum().item()
                return correct
            """,
            """
            @torch.no_grad()
            def evaluate(model: nn.Module, loader):
                correct = 0
                for images, labels in loader:
                    logits = model(images.cuda(non_blocking=True))
                    scores = logits.softmax(1).to(
                        torch.device("cpu"),  # overlap
                    )
                    correct += (scores.argmax(1) == labels).sum().item()
                return correct
            """,
        ),
    ]

    def visit_copy(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        if call is None or not _leaves_the_gpu(call) or call.constant("non_blocking", False) is not True:
            return
        read = _first_read(node, ctx)
        if read is None:
            return
        message = "the CPU reads this before the non_blocking copy is guaranteed to have finished"
        remove = ctx.fix("Remove `non_blocking=True`", ctx.remove_keyword(node, "non_blocking"), safety="safe")
        yield ctx.finding(self, read, message, related=[("the copy starts here", node)], fixes=[remove])


def _leaves_the_gpu(call: TorchCall) -> bool:
    """Say whether a ``to`` goes to the CPU from what is not known to be there already."""
    source = call.values[0] if call.values else None
    device = call.value("device")
    if not isinstance(source, Tensor) or device is None or source.device == "cpu":
        return False
    return device_name(device) == "cpu"


def _first_read(copy: ast.Call, ctx: Context) -> ast.expr | None:
    """Return the first place that reads a copy's result on the CPU, with nothing in between that may wait for it."""
    if _is_read(copy, ctx):
        return copy
    statement = ctx.parent(copy)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    name = dotted_text(statement.targets[0])
    block = _block_of(statement, ctx)
    for later in block[block.index(statement) + 1 :]:
        for node in own_nodes(later):
            if isinstance(node, (ast.Name, ast.Attribute)) and dotted_text(node) == name:
                if not isinstance(node.ctx, ast.Load):
                    return None
                if _is_read(node, ctx):
                    return node
        if any(_may_wait(node, ctx) for node in own_nodes(later)):
            return None
    return None


def _block_of(statement: ast.stmt, ctx: Context) -> list[ast.stmt]:
    parent = ctx.parent(statement)
    for name in ("body", "orelse", "finalbody"):
        block = cast("list[ast.stmt]", getattr(parent, name, []))
        if statement in block:
            return block
    return [statement]


def _is_read(node: ast.expr, ctx: Context) -> bool:
    """Say whether an expression's content is read where it stands."""
    parent = ctx.parent(node)
    match parent:
        case ast.Attribute(attr=name):
            outer = ctx.parent(parent)
            if not isinstance(outer, ast.Call) or outer.func is not parent:
                return False
            return name in _READS or _computes(outer, ctx)
        case ast.Call(func=function, args=arguments) if node in arguments:
            if isinstance(function, ast.Name) and function.id in _READERS:
                return True
            return (ctx.name(function) or "").startswith("numpy.") or _computes(parent, ctx)
        case ast.BinOp() | ast.Compare() | ast.FormattedValue() | ast.UnaryOp():
            return True
        case ast.If(test=test) | ast.While(test=test):
            return test is node
        case _:
            return False


def _computes(node: ast.Call, ctx: Context) -> bool:
    """Say whether a call is an operation on tensors that reads their content."""
    call = ctx.call(node)
    if call is None or call.operation in _NO_READS or not call.receiver_known:
        return False
    return isinstance(ctx.value(node), (Tensor, Sequence))


def _may_wait(node: ast.AST, ctx: Context) -> bool:
    """Say whether a node may wait for the GPU: it says so, or nobody sees what it calls."""
    if not isinstance(node, ast.Call):
        return False
    if called(node) in _WAITS:
        return True
    known = ctx.call(node) is not None or isinstance(ctx.value(node.func), Reference)
    return not known and called(node) not in _READERS | {"append", "len", "range", "zip", "enumerate"}
