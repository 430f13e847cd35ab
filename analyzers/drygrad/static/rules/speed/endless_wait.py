"""Rule DG604: a wait that nothing can end."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context, FunctionNode
from drygrad.static.facts.frame import dotted_text
from drygrad.static.loops import is_guarded
from drygrad.static.syntax import assigned_in, body_nodes, class_around, own_nodes
from drygrad.static.tree import walk

_LOCKS = frozenset({"threading.Lock", "multiprocessing.Lock"})
_DEEP = 3
_PROPERTIES = frozenset({"property", "cached_property", "functools.cached_property"})


class EndlessWait(Rule):
    """
    ## What it does
    Reports a wait that a dry run has proven endless: the thread waits for a lock, a queue, an event or another thread,
    without a timeout, and so does every other thread of the process. Without a run it finds a `threading.Lock` that is
    acquired again by the thread that holds it, in the same function or in one that it calls.

    ## Why is this bad?
    The program hangs without an error. It looks like a slow `backward()` or a hanging GPU, but is neither.

    ## Example
    ```python
    class Means:
        def __init__(self):
            self.lock, self.total, self.count = threading.Lock(), {}, {}

        def mean(self, name):
            with self.lock:
                return self.total[name] / self.count[name]

        def snapshot(self):
            with self.lock:
                return {name: self.mean(name) for name in self.count}
    ```
    Use instead:
    ```python
    class Means:
        def __init__(self):
            self.lock, self.total, self.count = threading.Lock(), {}, {}

        def mean(self, name):
            with self.lock:
                return self.total[name] / self.count[name]

        def snapshot(self):
            with self.lock:
                return {name: self.total[name] / n for name, n in self.count.items()}
    ```

    ## References
    [threading](https://docs.python.org/3/library/threading.html): a `Lock` is not reentrant, an `RLock` is.
    """

    code, name, since = "DG604", "endless-wait", "0.1"
    severity = "error"
    VALID = [
        Valid(
            """
            import threading

            class Monitor:
                def __init__(self):
                    self.lock, self.other = threading.RLock(), threading.Lock()
                    self.total = {}

                def mean(self, name):
                    with self.lock:
                        return self.total[name]

                def all(self):
                    with self.lock:
                        return [self.mean(name) for name in self.total]

                def later(self):
                    with self.other:
                        return lambda: self.later()
            """
        ),
        Valid(
            """
            import threading

            class Store:
                def __init__(self):
                    self.lock = threading.Lock()
                    self.kept = []

                def add(self, value):
                    with self.lock:
                        self.kept.append(value)
                    self.trim()

                def trim(self):
                    if self.lock.acquire(blocking=False):
                        self.kept.pop()
                        self.lock.release()

                def wait(self):
                    with self.lock:
                        self.lock.release()
                        self.add(1)
                        self.lock.acquire()
                        self.trim()
            """
        ),
        Valid(
            """
            import threading

            lock = threading.Lock()

            def read(is_held=False):
                if not is_held:
                    with lock:
                        return 1
                return 2

            def update():
                with lock:
                    read(is_held=True)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import threading

            class Monitor:
                def __init__(self):
                    self.lock = threading.Lock()
                    self.total, self.count = {}, {}

                def mean(self, name):
                    with self.lock:
                        return self.total[name] / self.count[name]

                def snapshot(self):
                    with self.lock:
                        return {name: self.mean(name) for name in self.count}
            """,
            at=(14, 26, 14, 41),
        ),
        Invalid(
            """
            import threading

            lock = threading.Lock()

            def log(text):
                lock.acquire()
                print(text)
                lock.release()

            def step(text):
                with lock:
                    log(text)
            """,
            at=(12, 8, 12, 17),
        ),
        Invalid(
            """
            import threading
            from collections import deque

            class Queue:
                def __init__(self):
                    self._lock: threading.Lock = threading.Lock()
                    self._kept = deque()

                @property
                def size(self):
                    with self._lock:
                        return len(self._kept)

                def take(self):
                    with self._lock:
                        while self.size:
                            yield self._kept.popleft()
            """,
            at=(16, 18, 16, 27),
        ),
        Invalid(
            """
            import threading

            class Nested:
                def __init__(self):
                    self.lock = threading.Lock()

                def step(self):
                    with self.lock:
                        with self.lock:
                            print("never")
            """,
            at=(9, 17, 9, 26),
        ),
    ]

    def visit_with(self, node: ast.With, ctx: Context) -> Iterator[Finding]:
        for held in (item.context_expr for item in node.items):
            text = dotted_text(held)
            if text is None or not _is_plain_lock(text, held, ctx) or _releases(node, text):
                continue
            for inner in own_nodes(*node.body):
                taken = _taken_by(inner, text, ctx, _DEEP)
                if taken is not None and not is_guarded(inner, node, ctx):
                    yield self._finding(inner if isinstance(inner, ast.expr) else taken, held, taken, ctx)
                    return

    def _finding(self, where: ast.expr, held: ast.expr, taken: ast.expr, ctx: Context) -> Finding:
        message = (
            f"{ctx.source_of(held)} is acquired twice by the same thread; a Lock is not reentrant, so this deadlocks"
        )
        related = [("acquired here", held), ("acquired again here", taken)]
        return ctx.finding(self, where, message, related=related[: 1 if taken is where else 2])


def _is_plain_lock(text: str, node: ast.expr, ctx: Context) -> bool:
    """Say whether a name of the module, or an attribute of a class's objects, is bound once in it, to a Lock."""
    owner, _, _ = text.rpartition(".")
    home = ctx.tree if not owner else class_around(node, ctx) if owner == "self" else None
    if home is None:
        return False
    bound = [statement for scope in _scopes(home) for name, statement in assigned_in(scope) if name == text]
    if len(bound) != 1 or not isinstance(bound[0], (ast.Assign, ast.AnnAssign)) or bound[0].value is None:
        return False
    target = bound[0].targets[0] if isinstance(bound[0], ast.Assign) else bound[0].target
    value: ast.expr | None = bound[0].value
    if isinstance(target, ast.Tuple):
        pairs = zip(target.elts, value.elts, strict=False) if isinstance(value, ast.Tuple) else ()
        value = next((given for part, given in pairs if dotted_text(part) == text), None)
    return isinstance(value, ast.Call) and not value.args and ctx.name(value.func) in _LOCKS


def _scopes(home: ast.AST) -> Iterator[ast.AST]:
    """Yield a module or a class, and the functions in it."""
    yield home
    yield from (node for node in walk(home) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def _releases(scope: ast.AST, text: str) -> bool:
    """Say whether a body gives a lock back before its end, for a while or to somebody."""
    return any(_is_call_of(node, "release", text) for node in own_nodes(scope))


def _is_call_of(node: ast.AST, method: str, text: str) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=called)):
            return called == method and dotted_text(owner) == text
        case _:
            return False


def _taken_by(node: ast.AST, text: str, ctx: Context, depth: int) -> ast.expr | None:
    """Return where a node waits for a lock without a timeout: itself, or in a function that it always runs there."""
    match node:
        case ast.With(items=items):
            return next((item.context_expr for item in items if dotted_text(item.context_expr) == text), None)
        case ast.Call(func=ast.Attribute(value=held, attr="acquire"), args=[], keywords=[]):
            return node if dotted_text(held) == text else None
        case ast.Call() | ast.Attribute() if depth:
            function = _function_run_by(node, text, ctx)
        case _:
            return None
    if function is None or any(isinstance(inner, (ast.Yield, ast.YieldFrom)) for inner in body_nodes(function)):
        return None
    for inner in body_nodes(function):
        if _is_call_of(inner, "release", text):
            return None
        taken = _taken_by(inner, text, ctx, depth - 1)
        if taken is not None:
            return None if is_guarded(inner, function, ctx) else taken
    return None


def _function_run_by(node: ast.Call | ast.Attribute, text: str, ctx: Context) -> FunctionNode | None:
    """Return the method of the same object, or the function of the module, that an expression runs."""
    if isinstance(node, ast.Attribute):
        called = _method(node, ctx)
        decorators = called.decorator_list if called is not None else []
        return called if any(dotted_text(decorator) in _PROPERTIES for decorator in decorators) else None
    if isinstance(node.func, ast.Attribute):
        called = _method(node.func, ctx)
        return called if called is not None and not called.decorator_list else None
    functions = [f for f in ctx.nodes(ast.FunctionDef) if isinstance(node.func, ast.Name) and f.name == node.func.id]
    return functions[0] if len(functions) == 1 and ctx.parent(functions[0]) is ctx.tree and "." not in text else None


def _method(node: ast.Attribute, ctx: Context) -> ast.FunctionDef | None:
    """Return the method of its own class that ``self.name`` names."""
    owner = class_around(node, ctx) if dotted_text(node.value) == "self" else None
    methods = [m for m in owner.body if isinstance(m, ast.FunctionDef) and m.name == node.attr] if owner else []
    return methods[0] if len(methods) == 1 else None
