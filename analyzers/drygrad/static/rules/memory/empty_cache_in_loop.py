"""Rule DG505: emptying the allocator's cache in every step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.loops import step_around

_EMPTIES = frozenset(f"torch.{backend}.empty_cache" for backend in ("cuda", "mps", "xpu", "accelerator"))
_MEASURES = ("memory", "elapsed_time", "Event", "perf_counter")


class EmptyCacheInLoop(Rule):
    """
    ## What it does
    Finds `torch.cuda.empty_cache()` in every step of a training or evaluation loop.

    ## Why is this bad?
    It frees no tensor: it only returns unused blocks to the driver, which PyTorch keeps for later allocations. The next
    step has to request them again, which takes far longer than reusing them, and freeing them waits for the GPU. Nor
    does it prevent out-of-memory errors: the allocator empties its cache by itself before it raises one. If memory
    grows from step to step, some tensor is still referenced.

    Calls in an exception handler, under a condition, between epochs, or next to memory measurements are not reported.

    ## Example
    ```python
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        torch.cuda.empty_cache()
    ```
    Use instead:
    ```python
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    ```

    ## Fix safety
    Safe: results do not depend on it.
    """

    code, name, since = "DG505", "empty-cache-in-loop", "0.1"
    severity = "hint"
    costs = frozenset({"sync"})
    VALID = [
        Valid("""
            def train(model, loader, criterion, optimizer, epochs):
                for epoch in range(epochs):
                    for x, y in loader:
                        criterion(model(x), y).backward()
                        optimizer.step()
                        optimizer.zero_grad()
                    torch.cuda.empty_cache()
        """),
        Valid("""
            def train(step, loader):
                for x, y in loader:
                    try:
                        step(x, y)
                    except torch.OutOfMemoryError:
                        torch.cuda.empty_cache()
        """),
        Valid("""
            def train(model, loader, criterion, optimizer):
                for i, (x, y) in enumerate(loader):
                    criterion(model(x), y).backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    if i % 500 == 0:
                        torch.cuda.empty_cache()
        """),
        Valid("""
            for size in (64, 128, 256):
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
                torch.nn.Linear(size, size).cuda()(torch.ones(size, size).cuda()).sum().backward()
                print(size, torch.cuda.max_memory_allocated())
        """),
    ]
    INVALID = [
        Invalid(
            """
            def train(model, loader, criterion, optimizer):
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = criterion(model(x.cuda()), y.cuda())
                    loss.backward()
                    optimizer.step()
                    del loss
                    torch.cuda.empty_cache()  # make room
                print("done")
            """,
            """
            def train(model, loader, criterion, optimizer):
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = criterion(model(x.cuda()), y.cuda())
                    loss.backward()
                    optimizer.step()
                    del loss
                print("done")
            """,
            at=(8, 8, 8, 32),
        ),
        Invalid(
            """
            from torch.cuda import empty_cache

            @torch.no_grad()
            def validate(model, val_loader):
                for x in val_loader:
                    model(x.cuda()); empty_cache()
            """,
        ),
        Invalid(
            """
            class Trainer:
                def step(self, x, y):
                    loss = self.criterion(self.model(x), y)
                    loss.backward()
                    self.optimizer.step()
                    torch.cuda.empty_cache()

                def fit(self, loader):
                    for x, y in loader:
                        self.step(x, y)
            """,
            """
            class Trainer:
                def step(self, x, y):
                    loss = self.criterion(self.model(x), y)
                    loss.backward()
                    self.optimizer.step()

                def fit(self, loader):
                    for x, y in loader:
                        self.step(x, y)
            """,
        ),
    ]

    def visit_statement(self, node: ast.Expr, ctx: Context) -> Iterator[Finding]:
        if not isinstance(node.value, ast.Call) or ctx.name(node.value.func) not in _EMPTIES:
            return
        step = step_around(node, ctx)
        if step is None or any(word in ctx.source_of(step) for word in _MEASURES):
            return
        delete = ctx.fix("Delete the call", ctx.delete_statement(node), safety="safe")
        message = (
            "empty_cache() on every step frees no tensors and slows down the next step; the allocator already "
            "releases its cache before it runs out of memory"
        )
        yield ctx.finding(self, node.value, message, fixes=[delete])
