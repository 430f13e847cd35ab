"""Rule DG603: measuring GPU work without waiting for it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Edit, Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import (
    UNKNOWN,
    Class,
    Constant,
    Function,
    Method,
    Number,
    Object,
    Reference,
    Tensor,
    Value,
)
from drygrad.static.loops import LOOPS
from drygrad.static.roles import role_of
from drygrad.static.syntax import block_of, body_nodes, called, follows, own_nodes, parameter_names, rebound_between
from drygrad.static.tree import walk

_CLOCKS = frozenset(
    [f"time.{name}{suffix}" for name in ("time", "perf_counter", "monotonic") for suffix in ("", "_ns")]
    + ["timeit.default_timer"]
)
_KNOWN_PACKAGES = frozenset({"torch", "builtins", "time", "math", "random", "timeit"})
_WAITS = re.compile(r"synchronize|\.item\(|\.tolist\(|\.cpu\(|\.numpy\(|Event|nonzero|print\(|float\(|\bwait\b|barrier")


class TimingWithoutSynchronize(Rule):
    """
    ## What it does
    Finds two clock readings around GPU work without a synchronization in between.

    ## Why is this bad?
    CUDA operations are queued and run later: the clock is read while they are still running, so you only measure how
    long Python took to queue them.

    `loss.item()`, `.cpu()` and printing a tensor also synchronize. Regions that contain one of these, CUDA events, or
    calls whose code is not visible are not reported.

    ## Example
    ```python
    x = torch.randn(1000, 1000, device="cuda")
    start = time.perf_counter()
    y = x @ x
    print(time.perf_counter() - start)
    ```
    Use instead:
    ```python
    x = torch.randn(1000, 1000, device="cuda")
    torch.cuda.synchronize()
    start = time.perf_counter()
    y = x @ x
    torch.cuda.synchronize()
    print(time.perf_counter() - start)
    ```

    ## Fix safety
    Unsafe: it waits for the GPU, and the measured times change.

    ## References
    - [CUDA semantics: asynchronous execution](https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution)
    """

    code, name, since = "DG603", "timing-without-synchronize", "0.1"
    severity = "warning"
    VALID = [
        Valid("""
            import time
            import torch

            x = torch.randn(1000, 1000, device="cuda")
            torch.cuda.synchronize()
            start = time.time()
            y = x @ x
            torch.cuda.synchronize()
            print(time.time() - start)
        """),
        Valid("""
            import time
            import torch

            x = torch.randn(1000, 1000)
            start = time.time()
            y = x @ x
            print(time.time() - start)
        """),
        Valid("""
            import time
            import torch

            x = torch.randn(1000, 1000, device="cuda")
            start = time.time()
            total = (x @ x).sum().item()
            print(total, time.time() - start)
        """),
        Valid("""
            import time
            import torch

            x = torch.randn(1000, 1000, device="cuda")
            start = time.time()
            total = (x @ x).sum()
            print(f"{total.item():.3f} after {time.time() - start:.1f} s")
        """),
        Valid("""
            import time
            import torch

            from mine import wait_for_all

            x = torch.randn(1000, 1000, device="cuda")
            start = time.time()
            y = x @ x
            wait_for_all()
            print(time.time() - start)
        """),
        Valid("""
            import time
            import torch

            start = time.time()
            x = torch.randn(1000, 1000).tolist()
            print(time.time() - start)
        """),
        Valid("""
            import time
            import torch

            def measure(model, images):
                start = time.perf_counter()
                model(images)
                return time.perf_counter() - start

            measure(load(), torch.randn(1, 3, 64, 64, device="cuda"))
            measure(load(), torch.randn(1, 3, 64, 64))
        """),
    ]
    INVALID = [
        Invalid(
            """
            import time
            import torch

            x = torch.randn(1000, 1000, device="cuda")
            start = time.time()
            y = x @ x
            print("seconds:", time.time() - start)
            """,
            """
            import time
            import torch

            x = torch.randn(1000, 1000, device="cuda")
            torch.cuda.synchronize()
            start = time.time()
            y = x @ x
            torch.cuda.synchronize()
            print("seconds:", time.time() - start)
            """,
            at=(7, 18, 7, 29),
        ),
        Invalid(
            """
            import torch
            from time import perf_counter
            from torch import nn

            device = "cuda" if torch.cuda.is_available() else "cpu"
            model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).to(device)

            def bench(n):
                x = torch.randn(4, 8, device=device)
                t0 = perf_counter()
                for _ in range(n):
                    out = model(x)
                t1 = perf_counter()
                return (t1 - t0) / n
            """,
            """
            import torch
            from time import perf_counter
            from torch import nn

            device = "cuda" if torch.cuda.is_available() else "cpu"
            model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).to(device)

            def bench(n):
                x = torch.randn(4, 8, device=device)
                if torch.cuda.is_available():
                    torch.cuda.synchronize()
                t0 = perf_counter()
                for _ in range(n):
                    out = model(x)
                if torch.cuda.is_available():
                    torch.cuda.synchronize()
                t1 = perf_counter()
                return (t1 - t0) / n
            """,
        ),
        Invalid(
            """
            import time
            import torch

            def measure(model, images, repeats):
                torch.cuda.synchronize()
                start = time.perf_counter()
                for _ in range(repeats):
                    model(images)
                return (time.perf_counter() - start) / repeats

            images = torch.randn(8, 3, 64, 64, device="cuda")
            print(measure(load(), images, repeats=20))
            """,
            """
            import time
            import torch

            def measure(model, images, repeats):
                torch.cuda.synchronize()
                start = time.perf_counter()
                for _ in range(repeats):
                    model(images)
                torch.cuda.synchronize()
                return (time.perf_counter() - start) / repeats

            images = torch.randn(8, 3, 64, 64, device="cuda")
            print(measure(load(), images, repeats=20))
            """,
            at=(9, 12, 9, 31),
        ),
        Invalid(
            """
            import time

            conv = nn.Conv2d(3, 64, 3).cuda()
            x = torch.randn(8, 3, 224, 224, device="cuda")
            start = time.time()
            print("shape", conv(x).size())
            print("seconds", time.time() - start)
            """,
            """
            import time

            conv = nn.Conv2d(3, 64, 3).cuda()
            x = torch.randn(8, 3, 224, 224, device="cuda")
            torch.cuda.synchronize()
            start = time.time()
            print("shape", conv(x).size())
            torch.cuda.synchronize()
            print("seconds", time.time() - start)
            """,
            at=(7, 17, 7, 28),
        ),
    ]

    def visit_difference(self, node: ast.BinOp, ctx: Context) -> Iterator[Finding]:
        if not isinstance(node.op, ast.Sub) or not isinstance(node.right, ast.Name):
            return
        scope = ctx.function(node) or ctx.tree
        start = _reading(node.right, scope, ctx)
        end = node.left if _reads_clock(node.left, ctx) else _reading(node.left, scope, ctx)
        if start is None or end is None or not follows(end, start):
            return
        last = ctx.statement(end)
        region = [n for n in body_nodes(scope) if follows(n, start) and follows(last, n)]
        region += [n for n in own_nodes(last) if follows(end, n) and not _holds(n, end)]  # evaluated before the reading
        work = _gpu_work(region, ctx)
        if work is None or any(_may_wait(n, ctx) for n in region):
            return
        device, place = work
        message = (
            "the timer stops while the GPU may still be busy, so it measures only the kernel launches; synchronize "
            "before both readings"
        )
        related = [("launched here", place)]
        yield ctx.finding(self, end, message, related=related, fixes=[_fix(start, end, device, ctx)])


def _holds(node: ast.AST, part: ast.AST) -> bool:
    return any(inner is part for inner in walk(node))


def _reads_clock(node: ast.expr, ctx: Context) -> bool:
    return isinstance(node, ast.Call) and ctx.name(node.func) in _CLOCKS


def _reading(node: ast.expr, scope: ast.AST, ctx: Context) -> ast.expr | None:
    """Return the reading of the clock that a name holds; None where it may hold another."""
    if not isinstance(node, ast.Name):
        return None
    values = [
        n.value
        for n in body_nodes(scope)
        if isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id == node.id for t in n.targets)
    ]
    return values[0] if len(values) == 1 and _reads_clock(values[0], ctx) else None


def _gpu_work(region: list[ast.AST], ctx: Context) -> tuple[str, ast.expr] | None:
    """Return the device and the place of an operation that the GPU surely does where there is one."""
    for node in region:
        if not isinstance(node, (ast.Call, ast.BinOp)):
            continue
        value = ctx.value(node)
        device = value.device if isinstance(value, Tensor) else None
        if device is None and isinstance(node, ast.Call) and _is_model(node, ctx):
            device = _given_device(node, ctx)
        if (device or "").startswith(("cuda", "auto")):
            return device or "", node
    return None


def _is_model(node: ast.Call, ctx: Context) -> bool:
    """Say whether a call is that of a model which the function was given: it computes, and waits for nothing."""
    return isinstance(node.func, ast.Name) and role_of(ctx, node.func) == "model"


def _given_device(node: ast.Call, ctx: Context) -> str | None:
    """Return the device of what a model is called with, where every caller of the function in the file passes it so."""
    function = ctx.function(node)
    if function is None or not node.args or not isinstance(node.args[0], ast.Name):
        return None
    names, given = parameter_names(function), node.args[0].id
    if given not in names or rebound_between(given, function, node, function):
        return None
    passed = [site.arguments.get(given, names.index(given)) for site in ctx.callers(function)]
    devices = {value.device if isinstance(value, Tensor) else None for value in passed}
    return devices.pop() if len(devices) == 1 else None


def _may_wait(node: ast.AST, ctx: Context) -> bool:
    """Say whether a node may wait for the GPU, or nobody sees what it calls."""
    if isinstance(node, LOOPS):
        return any(isinstance(n, ast.Call) and called(n) in ("to", "cuda") for n in own_nodes(*node.body))
    if isinstance(node, (ast.FormattedValue, ast.Yield, ast.Await)):
        return True
    if not isinstance(node, ast.Call):
        return False
    if _WAITS.search(f".{called(node)}("):
        return called(node) != "print" or not all(_is_no_tensor(argument, ctx) for argument in node.args)
    function = ctx.value(node.func)
    body = _body_of(function)
    if body is not None:
        return _WAITS.search(ast.unparse(body)) is not None
    return ctx.call(node) is None and not _is_known(function) and not _is_model(node, ctx)


def _is_no_tensor(node: ast.expr, ctx: Context) -> bool:
    """Say whether printing an expression shows no numbers of a tensor: a text, a shape, what the clock says."""
    match node:
        case ast.Constant() | ast.Attribute(attr="shape" | "dtype" | "device"):
            return True
        case ast.Call(func=ast.Attribute(attr="size" | "dim" | "numel")):
            return True
        case ast.BinOp(left=left, right=right):
            return isinstance(ctx.value(node), Number) or (_reads_clock(left, ctx) and isinstance(right, ast.Name))
        case _:
            return isinstance(ctx.value(node), (Number, Constant))


def _is_known(function: Value) -> bool:
    match function:
        case Reference(name=name):
            return name.partition(".")[0] in _KNOWN_PACKAGES
        case Method(receiver=receiver):
            return receiver is not UNKNOWN
        case _:
            return isinstance(function, Object)


def _body_of(function: object) -> ast.AST | None:
    """Return the function or class of the file that a call runs."""
    if isinstance(function, (Function, Class)):
        return function.node
    return function.cls.node if isinstance(function, Object) and function.cls is not None else None


def _fix(start: ast.expr, end: ast.expr, device: str, ctx: Context) -> Fix | None:
    """Wait before both readings; where there may be no GPU, only if there is one."""
    if not any(isinstance(n, ast.Import) and any(a.name == "torch" for a in n.names) for n in ctx.tree.body):
        return None
    readings = [ctx.statement(reading) for reading in (start, end)]
    edits = [_wait_before(statement, device, ctx) for statement in readings if not _waits_before(statement, ctx)]
    return ctx.fix("Synchronize before both readings", *edits)


def _waits_before(statement: ast.stmt, ctx: Context) -> bool:
    block = block_of(ctx, statement)
    before = block[: block.index(statement)][-1:]
    return bool(before) and ast.unparse(before[0]) == "torch.cuda.synchronize()"


def _wait_before(statement: ast.stmt, device: str, ctx: Context) -> Edit:
    wait = "torch.cuda.synchronize()"
    if device == "auto":
        indentation, newline = ctx.source.indentation(statement.lineno), ctx.source.newline
        wait = f"if torch.cuda.is_available():{newline}{indentation}    {wait}"
    return ctx.insert_statement(statement, wait)
