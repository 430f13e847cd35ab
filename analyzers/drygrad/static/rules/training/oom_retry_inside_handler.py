"""Rule DG711: a retry after out of memory that still holds what the failed try had allocated."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Edit, Finding, Fix, Invalid, Position, Rule, Span, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Function
from drygrad.static.syntax import called, calls_in, own_nodes, parameter_names
from drygrad.static.tree import walk

_ERRORS = frozenset({"torch.OutOfMemoryError"})
_WORDS = "out of memory"
_FLAG = "out_of_memory"
_HARMLESS = frozenset(
    "print empty_cache collect zero_grad synchronize str format info warning warn error debug exception write log "
    "append len int float max min range enumerate memory_summary reset_peak_memory_stats exit".split()
)


class OomRetryInsideHandler(Rule):
    """
    ## What it does
    Finds handlers of out-of-memory errors that retry inside the `except` block.

    ## Why is this bad?
    While the handler runs, Python holds the exception; its traceback references the frames of the failed functions, and
    these their tensors: the activations of the failed attempt cannot be freed, not even by `empty_cache()`. The retry
    starts with less memory and runs out again. As soon as the `except` block ends, the exception is gone and the memory
    free.

    ## Example
    ```python
    try:
        loss = train_step(batch)
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        loss = train_step(batch[: len(batch) // 2])
    ```
    Use instead:
    ```python
    out_of_memory = False
    try:
        loss = train_step(batch)
    except torch.OutOfMemoryError:
        out_of_memory = True
    if out_of_memory:
        torch.cuda.empty_cache()
        loss = train_step(batch[: len(batch) // 2])
    ```
    `torch.OutOfMemoryError` exists since torch 2.5, before as `torch.cuda.OutOfMemoryError`; with
    `except RuntimeError` and a test for "out of memory" in its text, other errors have to be raised again.

    ## Fix safety
    Safe: the same statements run in the same order.

    ## References
    - [My out of memory exception handler can't allocate
    memory](https://docs.pytorch.org/docs/stable/notes/faq.html#my-out-of-memory-exception-handler-can-t-allocate-memory)
    """

    code, name, since = "DG711", "oom-retry-inside-handler", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            def train(model, x, tell):
                try:
                    loss = model(x).mean()
                    tell(f"loss {loss}")
                except torch.OutOfMemoryError as error:
                    tell(f"out of memory: {error}")
            """
        ),
        Valid("""
            def step(train_step, batch):
                out_of_memory = False
                try:
                    loss = train_step(batch)
                except torch.OutOfMemoryError:
                    out_of_memory = True
                if out_of_memory:
                    torch.cuda.empty_cache()
                    loss = train_step(batch[: len(batch) // 2])
                return loss
        """),
        Valid("""
            def train(train_step, loader):
                for batch in loader:
                    try:
                        train_step(batch)
                    except torch.cuda.OutOfMemoryError as error:
                        print("skipped a batch", error)
                        torch.cuda.empty_cache()
        """),
        Valid("""
            def find_batch_size(run, size):
                while size:
                    try:
                        return run(size)
                    except RuntimeError as error:
                        if "out of memory" not in str(error):
                            raise
                        size //= 2
        """),
        Valid("""
            def load(path):
                try:
                    return torch.load(path)
                except RuntimeError:
                    return torch.load(path, map_location="cpu")
        """),
        Valid("""
            def load(read, path):
                try:
                    return read(path)
                except (torch.OutOfMemoryError, OSError):
                    raise SystemExit("cannot " + str(path))
        """),
        Valid(
            """
            def describe(net, x):
                print(type(net).__name__, x.shape)

            def encode(net, x):
                try:
                    return net(x)
                except torch.cuda.OutOfMemoryError:
                    describe(net, x)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            def fit(self, loader):
                for batch in loader:
                    try:
                        loss = self.train_step(batch)
                    except torch.cuda.OutOfMemoryError:
                        # half of it may do
                        torch.cuda.empty_cache()
                        loss = self.train_step(batch[: len(batch) // 2])
                    print(loss)
            """,
            """
            def fit(self, loader):
                for batch in loader:
                    out_of_memory = False
                    try:
                        loss = self.train_step(batch)
                    except torch.cuda.OutOfMemoryError:
                        out_of_memory = True
                    if out_of_memory:
                        # half of it may do
                        torch.cuda.empty_cache()
                        loss = self.train_step(batch[: len(batch) // 2])
                    print(loss)
            """,
            at=(8, 19, 8, 60),
        ),
        Invalid(
            """
            def step(model: nn.Module, x):
                try:
                    return model(x)
                except RuntimeError as e:
                    if "out of memory" in str(e):
                        torch.cuda.empty_cache()
                        return torch.cat([model(half) for half in x.chunk(2)])
                    raise
            """,
        ),
        Invalid(
            """
            def pieces(net, x):
                return torch.cat([net(part) for part in x.chunk(4)])

            def encode(net, x):
                try:
                    return net(x)
                except torch.cuda.OutOfMemoryError:
                    return pieces(net, x)
            """,
            """
            def pieces(net, x):
                return torch.cat([net(part) for part in x.chunk(4)])

            def encode(net, x):
                out_of_memory = False
                try:
                    return net(x)
                except torch.cuda.OutOfMemoryError:
                    out_of_memory = True
                if out_of_memory:
                    return pieces(net, x)
            """,
            at=(8, 15, 8, 29),
        ),
        Invalid(
            """
            from torch import OutOfMemoryError

            def run(step, batch, size):
                try:
                    return step(batch, size)
                except OutOfMemoryError:
                    return run(step, batch, size // 2)
            """,
            """
            from torch import OutOfMemoryError

            def run(step, batch, size):
                out_of_memory = False
                try:
                    return step(batch, size)
                except OutOfMemoryError:
                    out_of_memory = True
                if out_of_memory:
                    return run(step, batch, size // 2)
            """,
        ),
    ]

    def visit_try(self, node: ast.Try, ctx: Context) -> Iterator[Finding]:
        for handler in node.handlers:
            if _catches_out_of_memory(handler, ctx):
                retry = _retry(node, handler, ctx)
                if retry is not None:
                    message = (
                        f"{_called_text(retry)} is retried inside the exception handler; the traceback keeps "
                        "the failed attempt's tensors alive"
                    )
                    yield ctx.finding(self, retry, message, fixes=[_moved_out(node, handler, ctx)])


def _catches_out_of_memory(handler: ast.ExceptHandler, ctx: Context) -> bool:
    """Say whether a handler is for torch's out-of-memory error, by its type or by the text that it looks for."""
    if any(ctx.name(each) in _ERRORS for each in _types(handler)):
        return True
    return any(
        isinstance(node, ast.Constant) and isinstance(node.value, str) and _WORDS in node.value.lower()
        for test in _tests(handler)
        for node in walk(test)
    )


def _tests(handler: ast.ExceptHandler) -> Iterator[ast.expr]:
    return (node.test for node in own_nodes(*handler.body) if isinstance(node, ast.If))


def _retry(node: ast.Try, handler: ast.ExceptHandler, ctx: Context) -> ast.Call | None:
    """Return the first call in the handler of something that the try had called, or of the function around both."""
    tried = {_called_text(call) for call in _calls(node.body)}
    function = ctx.function(node)
    if function is not None:
        tried |= {function.name, f"self.{function.name}"}
    again = (call for call in _calls(handler.body) if _called_text(call) in tried or _calls_for(call, tried, ctx))
    return next((call for call in again if called(call) not in _HARMLESS and not _only_tells(call)), None)


def _only_tells(call: ast.Call) -> bool:
    """Say whether a call is given nothing but text: it logs."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    texts = (isinstance(a, ast.JoinedStr) or (isinstance(a, ast.Constant) and isinstance(a.value, str)) for a in given)
    return bool(given) and all(texts)


def _calls_for(call: ast.Call, tried: set[str], ctx: Context) -> bool:
    """Say whether a function of the file is given what the try had called, and calls it."""
    function = ctx.value(call.func)
    if not isinstance(function, Function) or isinstance(function.node, ast.Lambda) or function.receiver is not None:
        return False
    given = dict(zip(parameter_names(function.node), call.args, strict=False))
    names = {name for name, value in given.items() if ctx.text(value) in tried}
    return any(_called_text(inner) in names for inner in calls_in(function.node))


def _calls(body: list[ast.stmt]) -> Iterator[ast.Call]:
    return (node for node in own_nodes(*body) if isinstance(node, ast.Call))


def _called_text(call: ast.Call) -> str:
    return ast.unparse(call.func)


def _moved_out(node: ast.Try, handler: ast.ExceptHandler, ctx: Context) -> Fix | None:
    """Make the fix that runs the handler's statements after it, where they need nothing of the exception."""
    function = ctx.function(node) or ctx.tree
    plain = len(node.handlers) == 1 and not node.orelse and not node.finalbody and handler.name is None
    is_known = any(isinstance(n, ast.Name) and n.id == _FLAG for n in walk(function))
    reraises = any(isinstance(n, ast.Raise) and n.exc is None for n in own_nodes(*handler.body))
    if not plain or is_known or reraises or handler.body[0].lineno == handler.lineno or handler.type is None:
        return None
    if any(ctx.name(each) not in _ERRORS for each in _types(handler)):
        return None
    inner, newline = ctx.source.indentation(handler.body[0].lineno), ctx.source.newline
    outer = ctx.source.indentation(handler.lineno)
    start = Position((handler.type.end_lineno or handler.lineno) + 1, 0)
    moved = f"{inner}{_FLAG} = True{newline}{outer}if {_FLAG}:{newline}"
    return ctx.fix(
        "Retry after the handler",
        ctx.insert_statement(node, f"{_FLAG} = False"),
        Edit(Span(start, start), moved),
        safety="safe",
    )


def _types(handler: ast.ExceptHandler) -> list[ast.expr | None]:
    return [*handler.type.elts] if isinstance(handler.type, ast.Tuple) else [handler.type]
