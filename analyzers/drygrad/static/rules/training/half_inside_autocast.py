"""Rule DG726: half() beside autocast."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.roles import role_of
from drygrad.static.rules.training.scalers import may_be_disabled, scaled_steps
from drygrad.static.steps import Event, Training, plain_trainings
from drygrad.static.syntax import calls_in, follows, scope_of
from drygrad.static.tree import walk

_OTHER_DTYPES = re.compile(r"float32|float64|\bfloat\b|double|bfloat16|dtype", re.I)


class HalfInsideAutocast(Rule):
    """
    ## What it does
    Finds models converted with `half()` that are trained with a `GradScaler`, and tensors converted by hand under
    float16 autocast.

    ## Why is this bad?
    Mixed precision keeps the weights in float32. With float16 weights the gradients are float16 too, and the scaler
    raises "Attempting to unscale FP16 gradients". Tensors need no `half()` either: autocast converts inputs as each
    operation needs, and keeps in float32 what would overflow.

    ## Example
    ```python
    model = nn.Linear(8, 4).cuda().half()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler()
    with torch.autocast("cuda"):
        loss = F.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    ```
    Use instead:
    ```python
    model = nn.Linear(8, 4).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler()
    with torch.autocast("cuda"):
        loss = F.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Fix safety
    Unsafe: it changes the precision of the results.
    """

    code, name, since = "DG726", "half-inside-autocast", "0.1"
    severity = "error"
    VALID = [
        Valid("def f(model, x):\n    model.half()\n    return model(x.half())"),
        Valid("""
            def f(model, x, optimizer, scaler):
                model.half().float()
                with torch.autocast("cuda"):
                    loss = model(x).mean()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
        """),
        Valid("""
            def f(model, x, optimizer, scaler):
                model.half()
                torch.save(model.state_dict(), "half.pt")
                model.to(torch.float32)
                scaler.scale(model(x).mean()).backward()
                scaler.step(optimizer)
                scaler.update()
        """),
        Valid("""
            def f(model, teacher, x, optimizer, scaler):
                teacher.half()
                with torch.autocast("cuda"):
                    loss = F.mse_loss(model(x), teacher(x))
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
        """),
        Valid("def f(model, x):\n    with torch.autocast('cuda', enabled=False):\n        return model(x.half())"),
        Valid("""
            def f(model, x, optimizer):
                model.bfloat16()
                loss = model(x).float().mean()
                loss.backward()
                optimizer.step()
        """),
    ]
    INVALID = [
        Invalid(
            """
            def train(loader):
                model = nn.Linear(8, 1).cuda().half()
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                scaler = torch.amp.GradScaler("cuda")
                for x in loader:
                    optimizer.zero_grad()
                    with torch.autocast("cuda"):
                        loss = model(x).mean()
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
            """,
            """
            def train(loader):
                model = nn.Linear(8, 1).cuda()
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                scaler = torch.amp.GradScaler("cuda")
                for x in loader:
                    optimizer.zero_grad()
                    with torch.autocast("cuda"):
                        loss = model(x).mean()
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
            """,
            at=(2, 12, 2, 41),
        ),
        Invalid(
            """
            model = nn.Linear(8, 1)
            model.half()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for x in loader:
                optimizer.zero_grad()
                scaler.scale(model(x).mean()).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            """
            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for x in loader:
                optimizer.zero_grad()
                scaler.scale(model(x).mean()).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
        ),
        Invalid(
            "def f(model, x):\n    with torch.autocast('cuda'):\n        return model(x.half())",
            "def f(model, x):\n    with torch.autocast('cuda'):\n        return model(x)",
            severity="info",
        ),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        for training in plain_trainings(ctx) if ctx.mentions(".half(") else ():
            if not scaled_steps(training) or may_be_disabled(ctx, training):
                continue
            trained = {e.receiver for e in training.of("forward") if _records(ctx, e)} - {None}
            for call in _halved_models(ctx, training):
                if _name_of(ctx, call) in trained:
                    yield ctx.finding(
                        self,
                        call,
                        "float16 weights give float16 gradients, which the GradScaler rejects; "
                        "keep the weights in float32",
                        related=[("scaler.step() is called here", scaled_steps(training)[0].node)],
                        fixes=[self._fix(ctx, call)],
                    )

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        if call is None or call.target != "Tensor.half" or ctx.autocast(node) != "float16":
            return
        if isinstance(node.func, ast.Attribute) and role_of(ctx, node.func.value) != "model":
            message = (
                "half() under autocast is redundant; autocast casts each operation and keeps float32 where it is needed"
            )
            yield ctx.finding(self, node, message, severity="info", fixes=[self._fix(ctx, node)])

    def _fix(self, ctx: Context, call: ast.Call) -> Fix | None:
        assert isinstance(call.func, ast.Attribute)
        parent = ctx.parent(call)
        if isinstance(parent, ast.Expr):
            return ctx.fix("Remove `half()`", ctx.delete_statement(parent))
        return ctx.fix("Remove `half()`", ctx.replace(call, ctx.source_of(call.func.value)))


def _records(ctx: Context, forward: Event) -> bool:
    return ctx.grad_enabled(forward.statement) is not False


def _halved_models(ctx: Context, training: Training) -> Iterator[ast.Call]:
    """Yield the calls of ``half()`` on modules in a body."""
    body = None if isinstance(training.node, ast.Module) else training.node
    for node in walk(training.node):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "half":
            continue
        if ctx.function(node) is body and role_of(ctx, node.func.value) == "model" and not _is_taken_back(ctx, node):
            yield node


def _is_taken_back(ctx: Context, call: ast.Call) -> bool:
    """Say whether a later conversion gives the model another dtype: the last one counts."""
    outer = ctx.parent(ctx.parent(call) or call)
    if isinstance(outer, ast.Call) and _converts(outer):
        return True
    name = _name_of(ctx, call)
    later = (other for other in calls_in(scope_of(call, ctx)) if follows(other, call) and _converts(other))
    return any(isinstance(other.func, ast.Attribute) and ctx.text(other.func.value) == name for other in later)


def _converts(call: ast.Call) -> bool:
    """Say whether a call converts a module to a dtype other than float16."""
    match call:
        case ast.Call(func=ast.Attribute(attr="float" | "double" | "bfloat16"), args=[]):
            return True
        case ast.Call(func=ast.Attribute(attr="to" | "type")):
            given = " ".join(ast.unparse(argument) for argument in (*call.args, *(k.value for k in call.keywords)))
            return _OTHER_DTYPES.search(given) is not None
        case _:
            return False


def _name_of(ctx: Context, call: ast.Call) -> str | None:
    """Return the name of the module that is converted: ``model.half()``, ``model = Net().half()``."""
    assert isinstance(call.func, ast.Attribute)
    parent = ctx.parent(call)
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
        return ctx.text(parent.targets[0])
    return ctx.text(call.func.value)
