"""Rule DG606: a model sent to its device in every step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context, Loop
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import Object
from drygrad.static.loops import is_guarded, is_step_loop
from drygrad.static.repeating import repeated
from drygrad.static.roles import role_of
from drygrad.static.syntax import assigned_in, called, calls_in, follows, scope_of
from drygrad.static.tree import walk

_MOVES = frozenset({"to", "cuda", "cpu"})


class ModelMovedInLoop(Rule):
    """
    ## What it does
    Finds a model that is moved to a device in every step of a training or evaluation loop.

    ## Why is this bad?
    Modules move in place, so once before the loop is enough. Each further `model.to(device)` goes through all
    parameters and buffers only to find them already there: 3 ms for 150 small layers on a CPU (measured with torch
    2.13), in every step.

    Loops that also move the model elsewhere (offloading) are not reported.

    ## Example
    ```python
    for x, y in loader:
        model.to(device)
        loss = criterion(model(x.to(device)), y.to(device))
    ```
    Use instead:
    ```python
    model.to(device)
    for x, y in loader:
        loss = criterion(model(x.to(device)), y.to(device))
    ```

    ## Fix safety
    Safe if the same call is already before the loop and is only removed from it; unsafe if it is moved, because an
    empty loop would not have moved the model.
    """

    code, name, since = "DG606", "model-moved-in-loop", "0.1"
    severity = "hint"
    VALID = [
        Valid(  # another one for each
            """
            def update(model: nn.Module, x):
                model.cuda()
                F.mse_loss(model(x.cuda()), x.cuda()).backward()

            for x in torch.utils.data.DataLoader(data):
                model = nn.Linear(4, 4)
                update(model, x)
            """
        ),
        Valid("""
            def train(model: nn.Module, loader, criterion, optimizer, device):
                model.to(device)
                for x, y in loader:
                    criterion(model(x.to(device)), y.to(device)).backward()
                    optimizer.step()
                    optimizer.zero_grad()
        """),
        Valid("""
            def compare(models, loader, device):
                for model in models:
                    model.to(device)
                    for x in loader:
                        model(x.to(device))
        """),
        Valid("""
            @torch.no_grad()
            def offloaded(model: nn.Module, loader):
                for x in loader:
                    model.cuda()
                    print(model(x.cuda()))
                    model.cpu()
        """),
        Valid("""
            def run(make_model, loader, device):
                for x in loader:
                    model = make_model(x)
                    model.to(device)
                    model(x.to(device))
        """),
        Valid("def run(loader, device):\n    for x in loader:\n        x = x.to(device)\n        print(x)"),
    ]
    INVALID = [
        Invalid(
            """
            class Learner:
                def __init__(self, model: nn.Module):
                    self.model = model
                    self.optimizer = torch.optim.Adam(model.parameters())

                def update(self, x, y):
                    self.model.cuda()
                    self.optimizer.zero_grad()
                    F.mse_loss(self.model(x.cuda()), y.cuda()).backward()
                    self.optimizer.step()

            learner = Learner(nn.Linear(4, 1))
            for x, y in torch.utils.data.DataLoader(data):
                learner.update(x, y)
            """,
            at=(7, 8, 7, 25),
        ),
        Invalid(
            """
            def train(model, loader, criterion, optimizer, device):
                model.train()
                for x, y in loader:
                    model.to(device)
                    optimizer.zero_grad()
                    criterion(model(x.to(device)), y.to(device)).backward()
                    optimizer.step()
            """,
            """
            def train(model, loader, criterion, optimizer, device):
                model.train()
                model.to(device)
                for x, y in loader:
                    optimizer.zero_grad()
                    criterion(model(x.to(device)), y.to(device)).backward()
                    optimizer.step()
            """,
            at=(4, 8, 4, 24),
        ),
        Invalid(
            """
            net = nn.Linear(4, 1)
            net = net.to("cuda")
            optimizer = torch.optim.SGD(net.parameters(), 0.1)
            for x in torch.utils.data.DataLoader(torch.ones(8, 4)):
                net = net.to("cuda")
                loss = net(x.cuda()).mean()
                loss.backward()
                optimizer.step()
            """,
            """
            net = nn.Linear(4, 1)
            net = net.to("cuda")
            optimizer = torch.optim.SGD(net.parameters(), 0.1)
            for x in torch.utils.data.DataLoader(torch.ones(8, 4)):
                loss = net(x.cuda()).mean()
                loss.backward()
                optimizer.step()
            """,
        ),
        Invalid("""
            @torch.no_grad()
            def predict(model: nn.Module, test_loader):
                return [model.cuda()(x.cuda()) for x in test_loader]

            @torch.no_grad()
            def evaluate(model: nn.Module, test_loader):
                for x in test_loader:
                    print(model.cuda()(x.cuda()))
        """),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        if not isinstance(node.func, ast.Attribute) or node.func.attr not in _MOVES:
            return
        name = dotted_text(node.func.value)
        loops = ctx.loops(node)
        if name is None or not _is_model(node.func.value, ctx):
            return
        if not loops and repeated(name, node, ctx) is None:
            return
        if loops and (not is_step_loop(loops[0], ctx) or is_guarded(node, loops[0], ctx)):
            return
        if any(_is_another_each_time(name, node, loop) for loop in loops[:1]):
            return
        if any(other is not node and _moves(other, name) for loop in loops[:1] for other in calls_in(loop)):
            return
        message = (
            f"{name} is moved to its device on every step, which walks over all parameters; once before the "
            "loop is enough"
        )
        yield ctx.finding(self, node, message, fixes=[_fix(node, name, loop, ctx) for loop in loops[:1]])


def _is_model(node: ast.expr, ctx: Context) -> bool:
    value = ctx.value(node)
    return value.is_module if isinstance(value, Object) else role_of(ctx, node) == "model"


def _is_another_each_time(name: str, node: ast.Call, loop: Loop) -> bool:
    """Say whether the loop binds the name to anything but the moved model itself."""
    bindings = [statement for bound, statement in assigned_in(loop) if bound == name]
    if not all(isinstance(statement, ast.Assign) and statement.value is node for statement in bindings):
        return True
    targets = walk(loop.target) if isinstance(loop, ast.For) else ()
    return any(dotted_text(target) == name for target in targets if isinstance(target, ast.expr))


def _moves(call: ast.Call, name: str) -> bool:
    return called(call) in _MOVES and isinstance(call.func, ast.Attribute) and dotted_text(call.func.value) == name


def _fix(node: ast.Call, name: str, loop: Loop, ctx: Context) -> Fix | None:
    """Delete the move where the same one stands before the loop; else put it there."""
    statement = ctx.parent(node)
    if not isinstance(statement, (ast.Expr, ast.Assign)) or statement.value is not node:
        return None
    text = ctx.source_of(node)
    delete = ctx.delete_statement(statement)
    before = [c for c in calls_in(scope_of(node, ctx)) if _moves(c, name) and follows(loop, c)]
    if before and ctx.source_of(before[-1]) == text and not is_guarded(before[-1], scope_of(node, ctx), ctx):
        return ctx.fix(f"Delete the call: `{name}` is already there", delete, safety="safe")
    bound = {each for each, _ in assigned_in(loop)}
    if any(isinstance(n, ast.Name) and n.id in bound for a in (*node.args, *node.keywords) for n in walk(a)):
        return None
    return ctx.fix("Move it before the loop", ctx.insert_statement(loop, ctx.source_of(statement)), delete)
