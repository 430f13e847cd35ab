"""Rule DG602: waiting for the GPU in every step without a reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.loops import step_around, trains
from drygrad.static.syntax import called, own_nodes, scope_of

_SYNCHRONIZES = frozenset(
    {"torch.cuda.synchronize", "torch.accelerator.synchronize", "torch.xpu.synchronize", "torch.mps.synchronize"}
)
_REASONS = re.compile(
    r"\btime\b|timeit|perf_counter|monotonic|\bEvent\b|elapsed|benchmark|profil|\bstream|Stream|non_blocking|graph|"
    r"distributed|\bdist\b|all_reduce|barrier|DistributedDataParallel|ctypes|numba|cupy|triton|memory_",
    re.IGNORECASE,
)


class NeedlessSynchronize(Rule):
    """
    ## What it does
    Finds `torch.cuda.synchronize()` in every training step where nothing needs it.

    ## Why is this bad?
    Work on one CUDA stream runs in the order in which it was queued: `optimizer.step()` cannot start before the
    gradients are ready, and `loss.item()` synchronizes by itself. An extra synchronization leaves the GPU idle while
    Python prepares the next step.

    Synchronizing is needed to measure time, between streams, and before the CPU reads the result of a
    `non_blocking=True` copy; files or functions with any of these, with process groups or with graph capture are not
    reported.

    ## Example
    ```python
    loss.backward()
    torch.cuda.synchronize()
    optimizer.step()
    ```
    Use instead:
    ```python
    loss.backward()
    optimizer.step()
    ```

    ## Fix safety
    Safe: results do not depend on it.

    ## References
    - [CUDA semantics: asynchronous execution](https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution)
    """

    code, name, since = "DG602", "needless-synchronize", "0.1"
    severity = "hint"
    costs = frozenset({"sync"})
    VALID = [
        Valid("""
            import time

            def train(model, loader, criterion, optimizer):
                for x, y in loader:
                    start = time.perf_counter()
                    criterion(model(x), y).backward()
                    torch.cuda.synchronize()
                    print(time.perf_counter() - start)
                    optimizer.step()
                    optimizer.zero_grad()
        """),
        Valid("""
            def train(model, loader, criterion, optimizer, side: torch.cuda.Stream):
                for x, y in loader:
                    with torch.cuda.stream(side):
                        x = x.cuda()
                    torch.cuda.synchronize()
                    criterion(model(x), y).backward()
                    optimizer.step()
                    optimizer.zero_grad()
        """),
        Valid("""
            def train(model, loader, criterion, optimizer):
                for i, (x, y) in enumerate(loader):
                    criterion(model(x), y).backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    if i % 100 == 0:
                        torch.cuda.synchronize()
        """),
        Valid("""
            def train(model, loader, criterion, optimizer):
                for x, y in loader:
                    criterion(model(x), y).backward()
                    optimizer.step()
                    optimizer.zero_grad()
                torch.cuda.synchronize()
        """),
    ]
    INVALID = [
        Invalid(
            "def step(model, x, criterion, y, optimizer):\n    loss = criterion(model(x), y)\n    loss.backward()\n"
            "    torch.cuda.synchronize()  # wait for the gradients\n    optimizer.step()\n    optimizer.zero_grad()",
            "def step(model, x, criterion, y, optimizer):\n    loss = criterion(model(x), y)\n    loss.backward()\n"
            "    optimizer.step()\n    optimizer.zero_grad()",
            at=(4, 4, 4, 28),
        ),
        Invalid(
            """
            def train(model, loader, criterion, optimizer):
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = criterion(model(x.cuda()), y.cuda())
                    loss.backward()
                    torch.cuda.synchronize()  # wait for the gradients
                    optimizer.step()
            """,
            """
            def train(model, loader, criterion, optimizer):
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = criterion(model(x.cuda()), y.cuda())
                    loss.backward()
                    optimizer.step()
            """,
            at=(6, 8, 6, 32),
        ),
        Invalid(
            """
            from torch.cuda import synchronize

            def step(model, x, y, optimizer):
                F.cross_entropy(model(x), y).backward()
                synchronize()
                optimizer.step()
                synchronize()

            def fit(model, loader, optimizer):
                for x, y in loader:
                    step(model, x, y, optimizer)
            """,
            """
            from torch.cuda import synchronize

            def step(model, x, y, optimizer):
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                synchronize()

            def fit(model, loader, optimizer):
                for x, y in loader:
                    step(model, x, y, optimizer)
            """,
            count=2,
        ),
    ]

    def visit_statement(self, node: ast.Expr, ctx: Context) -> Iterator[Finding]:
        if not isinstance(node.value, ast.Call) or ctx.name(node.value.func) not in _SYNCHRONIZES:
            return
        step = step_around(node, ctx)
        in_step = step is not None and trains(step)
        if not (in_step or _is_between_backward_and_step(node, ctx)) or _has_reason(node, ctx):
            return
        delete = ctx.fix("Delete the call", ctx.delete_statement(node), safety="safe")
        message = (
            "synchronize() stalls the GPU on every step; work on one stream runs in order, so it is not needed here"
        )
        yield ctx.finding(self, node.value, message, fixes=[delete])


def _is_between_backward_and_step(node: ast.stmt, ctx: Context) -> bool:
    """Say whether a statement stands right after a backward and right before an optimizer's step."""
    block = getattr(ctx.parent(node), "body", [])
    at = block.index(node) if node in block else -1
    if not 0 < at < len(block) - 1:
        return False
    return "backward" in _called_in(block[at - 1]) and "step" in _called_in(block[at + 1])


def _called_in(statement: ast.stmt) -> set[str]:
    return {called(node) for node in own_nodes(statement) if isinstance(node, ast.Call)}


def _has_reason(node: ast.stmt, ctx: Context) -> bool:
    """Say whether the function, or what the file imports, may need the GPU to have finished."""
    scope = scope_of(node, ctx)
    texts = [ctx.source.text] if isinstance(scope, ast.Module) else [ast.unparse(scope), *_imports(ctx)]
    return any(_REASONS.search(text) for text in texts)


def _imports(ctx: Context) -> Iterator[str]:
    return (ast.unparse(node) for node in ctx.tree.body if isinstance(node, (ast.Import, ast.ImportFrom)))
