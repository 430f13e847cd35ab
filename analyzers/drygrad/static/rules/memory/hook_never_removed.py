"""Rule DG510: a hook that is registered again and again, and never removed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context, FunctionNode, Loop
from drygrad.static.facts.frame import dotted_text
from drygrad.static.loops import is_guarded, trains
from drygrad.static.rules.memory.hook_removal import before_the_loop, taken_off
from drygrad.static.rules.memory.hooks import HOOKS, body_of, filled_by, names_of
from drygrad.static.syntax import (
    body_nodes,
    bound_names,
    calls_in,
    follows,
    parameter_names,
)
from drygrad.static.tree import walk

_FRESH = frozenset({"list", "dict", "set", "defaultdict", "OrderedDict"})


class HookNeverRemoved(Rule):
    """
    ## What it does
    Finds module hooks that are registered again in every call of a function, every iteration of a loop or every
    `forward`, while the handle that could remove them is discarded.

    A function is reported if it registers a hook that fills a local container, runs the model and returns; a function
    that trains the model may want the hook for the whole training.

    A dry run reports every line that has left three or more copies of a hook on one module or tensor, if operations
    ran between the registrations.

    ## Why is this bad?
    Hooks add up: the second call has two, the hundredth a hundred. Each runs in every later forward, also during
    training, and hooks that collect outputs keep them alive although nothing reads them.

    ## Example
    ```python
    def features(model, x):
        kept = []
        model.backbone.register_forward_hook(lambda module, args, output: kept.append(output))
        model(x)
        return torch.cat(kept)
    ```
    Use instead:
    ```python
    def features(model, x):
        kept = []
        handle = model.backbone.register_forward_hook(lambda module, args, output: kept.append(output))
        try:
            model(x)
        finally:
            handle.remove()
        return torch.cat(kept)
    ```

    ## Fix safety
    Unsafe: a hook that should see later forwards no longer does.
    """

    code, name, since = "DG510", "hook-never-removed", "0.1"
    VALID = [
        Valid(
            """
            def features(model, x):
                kept = []
                handle = model.backbone.register_forward_hook(lambda module, args, output: kept.append(output))
                model(x)
                handle.remove()
                return torch.cat(kept)
            """
        ),
        Valid(
            """
            def watch(model, kept):
                model.backbone.register_forward_hook(lambda module, args, output: kept.append(output.detach()))
            """
        ),
        Valid(
            """
            def watched(model):
                seen = []
                model.backbone.register_forward_hook(lambda module, args, output: seen.append(output.detach()))
                return seen
            """
        ),
        Valid(
            """
            def trace(x):
                shapes = []
                model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
                model[0].register_forward_hook(lambda module, args, output: shapes.append(output.shape))
                model(x)
                return shapes
            """
        ),
        Valid(
            """
            def instrument(model, hook):
                for module in model.modules():
                    module.register_forward_hook(hook)
                for index in range(3):
                    model.layers[index].register_forward_hook(hook)
            """
        ),
        Valid(
            """
            def first_only(model, loader, hook):
                for step, x in enumerate(loader):
                    if step == 0:
                        model.register_forward_hook(hook)
                    model(x)
            """
        ),
        Valid(
            """
            def moved(old, new):
                for hook in old._forward_hooks.values():
                    new.register_forward_hook(hook)
            """
        ),
        Valid(
            """
            def each(models, hook):
                for name in models:
                    model = models[name]
                    model.register_forward_hook(hook)
            """
        ),
        Valid(
            """
            def compare(make, loader, hook):
                for x in loader:
                    handles = [make().register_forward_hook(hook)]
                    model.register_forward_hook(hook)
                    break
            """
        ),
        Valid(
            """
            class Probe(nn.Module):
                def __init__(self, body):
                    super().__init__()
                    self.body, self.seen, self.hooked = body, [], False
                    self.body.register_forward_hook(lambda module, args, output: self.seen.append(output.shape))

                def forward(self, x):
                    if not self.hooked:
                        self.body.register_forward_hook(print)
                        self.hooked = True
                    return self.body(x)
            """
        ),
        Valid(
            """
            def fit(model, optimizer, batches):
                norms = []
                model.head.register_full_backward_hook(lambda module, inputs, outputs: norms.append(outputs[0]))
                for x, y in batches:
                    optimizer.zero_grad()
                    F.mse_loss(model(x), y).backward()
                    optimizer.step()
                return norms
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            def heat(model, image):
                seen = []
                model.layer.register_forward_hook(lambda module, args, output: seen.append(output))
                scores = predict(image)
                return scores, seen[0]
            """,
            """
            def heat(model, image):
                seen = []
                handle = model.layer.register_forward_hook(lambda module, args, output: seen.append(output))
                try:
                    scores = predict(image)
                    return scores, seen[0]
                finally:
                    handle.remove()
            """,
        ),
        Invalid(
            """
            class Explainer:
                def __init__(self, model, layer):
                    self.model, self.layer = model, layer

                def explain(self, image):
                    seen = []
                    self.layer.register_forward_hook(lambda module, inputs, output: seen.append(output))
                    logits = self.model(image)
                    return torch.autograd.grad(logits.max(), seen[0])[0]
            """,
            """
            class Explainer:
                def __init__(self, model, layer):
                    self.model, self.layer = model, layer

                def explain(self, image):
                    seen = []
                    handle = self.layer.register_forward_hook(lambda module, inputs, output: seen.append(output))
                    try:
                        logits = self.model(image)
                    finally:
                        handle.remove()
                    return torch.autograd.grad(logits.max(), seen[0])[0]
            """,
            at=(7, 8, 7, 92),
        ),
        Invalid(
            """
            def features(model, loader):
                kept = []

                def keep(module, args, output):
                    kept.append(output.detach())

                model.backbone.register_forward_hook(keep)
                model.eval()
                with torch.no_grad():
                    for x in loader:
                        model(x)
                return torch.cat(kept)
            """,
            """
            def features(model, loader):
                kept = []

                def keep(module, args, output):
                    kept.append(output.detach())

                handle = model.backbone.register_forward_hook(keep)
                try:
                    model.eval()
                    with torch.no_grad():
                        for x in loader:
                            model(x)
                finally:
                    handle.remove()
                return torch.cat(kept)
            """,
            at=(7, 4, 7, 46),
        ),
        Invalid(
            """
            class Explainer:
                def __init__(self, net):
                    self.net = net.eval()

                def heat(self, image):
                    taken = {}
                    self.net.top.register_forward_hook(lambda module, args, output: taken.update(last=output))
                    scores = self.net(image)
                    return scores.argmax(), taken["last"].mean(1)
            """,
            """
            class Explainer:
                def __init__(self, net):
                    self.net = net.eval()

                def heat(self, image):
                    taken = {}
                    handle = self.net.top.register_forward_hook(lambda module, args, output: taken.update(last=output))
                    try:
                        scores = self.net(image)
                    finally:
                        handle.remove()
                    return scores.argmax(), taken["last"].mean(1)
            """,
        ),
        Invalid(
            """
            def run(model, loader, report):
                for epoch in range(3):
                    model.encoder.register_forward_pre_hook(report)
                    for x in loader:
                        model(x)
            """,
            """
            def run(model, loader, report):
                model.encoder.register_forward_pre_hook(report)
                for epoch in range(3):
                    for x in loader:
                        model(x)
            """,
            at=(3, 8, 3, 55),
        ),
        Invalid(
            """
            class Block(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.inner = nn.Linear(4, 4)

                def forward(self, x):
                    self.inner.register_forward_hook(lambda module, args, output: output * 2)
                    return self.inner(x)
            """,
            """
            class Block(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.inner = nn.Linear(4, 4)

                def forward(self, x):
                    handle = self.inner.register_forward_hook(lambda module, args, output: output * 2)
                    try:
                        return self.inner(x)
                    finally:
                        handle.remove()
            """,
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        registered = _registered(node, ctx)
        if registered is None:
            return
        when = _in_forward(node, ctx) or _in_loop(node, registered, ctx) or _in_function(node, registered, ctx)
        if when:
            yield ctx.finding(
                self,
                node,
                f"{when} registers another hook and none is removed; all of them run on every later forward of "
                f"`{registered}`",
                fixes=[before_the_loop(node, ctx) if ctx.loops(node) else taken_off(node, registered, ctx)],
            )


def _registered(node: ast.Call, ctx: Context) -> str | None:
    """Return the module on which a hook is registered, where the handle is thrown away and no condition is around."""
    match node:
        case ast.Call(func=ast.Attribute(value=receiver, attr=attribute)) if attribute in HOOKS:
            dropped = isinstance(ctx.parent(node), ast.Expr)
            return dotted_text(receiver) if dropped and not is_guarded(node, ctx.tree, ctx) else None
        case _:
            return None


def _in_forward(node: ast.Call, ctx: Context) -> str | None:
    function = ctx.function(node)
    cls = ctx.parent(function) if function is not None else None
    if function is None or function.name != "forward" or not isinstance(cls, ast.ClassDef) or ctx.loops(node):
        return None
    return "each forward" if ctx.is_module_class(cls) and (_root(node) in parameter_names(function)[:1]) else None


def _in_loop(node: ast.Call, registered: str, ctx: Context) -> str | None:
    """Say that each turn of a loop registers a hook on one and the same module."""
    loops = ctx.loops(node)
    if not loops or bound_names(loops[-1]) & names_of(node) or _binds(loops[-1], registered):
        return None
    if any(isinstance(n, (ast.Break, ast.Return, ast.Raise)) for n in body_nodes(loops[0])):
        return None
    return "each iteration of this loop"


def _binds(loop: Loop, registered: str) -> bool:
    """Say whether a loop assigns an attribute through which it reaches the module."""
    stores = (dotted_text(n) for n in walk(loop) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
    return any(text and f"{registered}.".startswith(f"{text}.") for text in stores)


def _in_function(node: ast.Call, registered: str, ctx: Context) -> str | None:
    """Say that each call of a function registers a hook that fills a container of that call alone."""
    function = ctx.function(node)
    if function is None or trains(function) or _root(node) not in parameter_names(function) or ctx.loops(node):
        return None
    hook = body_of(node.args[0], function) if node.args else None
    filled = (filled_by(hook) if hook is not None else set[str]()) & _fresh_containers(function)
    if function.name.startswith("__") or not filled:
        return None
    runs = _runs(registered, node, function) or _is_read_later(filled, node, function)
    return f"each call of {function.name}" if runs else None


def _root(node: ast.Call) -> str:
    return (dotted_text(node.func) or "").partition(".")[0]


def _runs(registered: str, node: ast.Call, function: FunctionNode) -> bool:
    """Say whether a function calls the module, or one that holds it, after it has registered the hook."""
    later = (dotted_text(call.func) for call in calls_in(function) if follows(call, node))
    return any(text and f"{registered}.".startswith(f"{text}.") for text in later)


def _is_read_later(filled: set[str], node: ast.Call, function: FunctionNode) -> bool:
    """Say whether a function counts on what the hook has put in by then: something that it calls runs the module."""
    return any(
        isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Load) and dotted_text(n.value) in filled
        for n in body_nodes(function)
        if follows(n, node)
    )


def _fresh_containers(function: FunctionNode) -> set[str]:
    """Return the names of the containers that a function makes, empty, for itself."""
    made: set[str] = set()
    for node in body_nodes(function):
        for target, value in _pairs(node):
            empty = isinstance(value, (ast.List, ast.Dict)) or (
                isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in _FRESH
            )
            if isinstance(target, ast.Name) and empty:
                made.add(target.id)
    return made


def _pairs(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield each target of an assignment with its value."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            yield from zip(targets, values, strict=False)
        case ast.Assign(targets=targets, value=value):
            yield from ((target, value) for target in targets)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield target, value
        case _:
            return
