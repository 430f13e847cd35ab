"""Rule DG618: a tensor that stays the same, and is copied to the device in every step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context, Loop
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import Function, Tensor
from drygrad.static.loops import is_guarded, is_step_loop
from drygrad.static.repeating import repeated
from drygrad.static.syntax import assigned_in, bound_names, calls_in, nodes_within
from drygrad.static.tree import walk

_MOVES = frozenset({"to", "cuda"})
_MAKES = frozenset({"tensor", "as_tensor"})


class ConstantCopiedAnew(Rule):
    """
    ## What it does
    Finds constant CPU tensors that are copied to the device in every step of a loop, or in every call of a module's
    `forward`, and tensors that are made there of numbers in the code: `torch.tensor([0.2, 0.8], device=x.device)`.

    ## Why is this bad?
    The copy happens every time, and the CPU waits for it. Once before the loop is enough. In a module, use
    `register_buffer`: `model.to(device)` then moves the tensor with the weights, and checkpoints include it (unless
    `persistent=False`).

    ## Example
    ```python
    weight = torch.tensor([0.2, 0.8])
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x.cuda()), y.cuda(), weight=weight.cuda())
        loss.backward()
        optimizer.step()
    ```
    Use instead:
    ```python
    weight = torch.tensor([0.2, 0.8], device="cuda")
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x.cuda()), y.cuda(), weight=weight)
        loss.backward()
        optimizer.step()
    ```

    ## Fix safety
    Unsafe: other code that uses the name now gets the tensor on the device.
    """

    code, name, since = "DG618", "constant-copied-anew", "0.1"
    severity = "info"
    VALID = [
        Valid(
            """
            class Graph(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.lin = nn.Linear(4, 4)
                    self.register_buffer("adjacency", torch.rand(4, 4))
                    self.cached = torch.rand(4, 4)

                def forward(self, x):
                    if self.cached.device != x.device:
                        self.cached = self.cached.to(x.device)
                    return self.adjacency.to(x.device) @ self.lin(x) + self.cached

            def train(model, loader, optimizer, device, weight):
                mean = torch.zeros(4)
                for step, (x, y) in enumerate(loader):
                    mean = 0.9 * mean + 0.1 * x.mean(0)
                    loss = F.mse_loss(model(x.to(device)) * weight.to(device), y.to(device) - mean.to(device))
                    loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            class MaskedLoss:
                def __init__(self, mask):
                    self.mask = mask

                def __call__(self, prediction, truth):
                    return ((prediction - truth) * self.mask.to(prediction.device)).abs().mean()

            model, loss_fn = nn.Linear(4, 4).cuda(), MaskedLoss(torch.ones(4))
            optimizer = torch.optim.Adam(model.parameters())
            for _ in range(9):
                loss = loss_fn(model(torch.rand(2, 4, device="cuda")), torch.rand(2, 4, device="cuda"))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            at=(6, 39, 6, 70),
        ),
        Invalid(
            """
            class Luminance(nn.Module):
                def forward(self, x):
                    weights = torch.tensor([0.299, 0.587, 0.114]).to(x.device)
                    return x @ weights + torch.tensor(0.5, device=x.device)
            """,
            at=(3, 18, 3, 53),
        ),
        Invalid(
            """
            def train(model, loader, optimizer):
                weight = torch.tensor([0.2, 0.8])
                for x, y in loader:
                    loss = F.cross_entropy(model(x.cuda()), y.cuda(), weight=weight.cuda())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            """
            def train(model, loader, optimizer):
                weight = torch.tensor([0.2, 0.8])
                weight = weight.cuda()
                for x, y in loader:
                    loss = F.cross_entropy(model(x.cuda()), y.cuda(), weight=weight)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            at=(4, 65, 4, 78),
        ),
        Invalid(
            """
            class Graph(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.lin = nn.Linear(4, 4)
                    self.adjacency = torch.rand(4, 4)

                def forward(self, x):
                    return self.adjacency.to(x.device) @ self.lin(x)
            """,
            at=(5, 8, 5, 41),
        ),
    ]

    def visit_loop(self, node: ast.For | ast.While, ctx: Context) -> Iterator[Finding]:
        if not is_step_loop(node, ctx):
            return
        bound = {name for name, _ in assigned_in(node)} | bound_names(node)
        for call in calls_in(node):
            name = _copied(call, ctx)
            if name is None or bound & {name, name.partition(".")[0]} or is_guarded(call, node, ctx):
                continue
            if ctx.loops(call)[:1] == [node]:
                message = f"`{name}` is the same in every step but is copied to the device each time"
                yield ctx.finding(self, call, message, fixes=[_fix(call, name, node, ctx)])

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        """Find copies in functions that steps call, and numbers of the text that become a tensor on the device."""
        name = _copied(node, ctx)
        function = ctx.function(node)
        if (
            name is not None
            and function is not None
            and function.name != "forward"
            and repeated(name, node, ctx) is not None
        ):
            yield ctx.finding(self, node, f"`{name}` is the same in every step but is copied to the device each time")
        if not _is_made_of_numbers(node, ctx):
            return
        function, loops = ctx.function(node), ctx.loops(node)
        cls = ctx.parent(function) if function is not None else None
        in_forward = function is not None and function.name == "forward"
        in_forward = in_forward and isinstance(cls, ast.ClassDef) and ctx.is_module_class(cls)
        around = loops[0] if loops else function if in_forward else None
        if around is None or is_guarded(node, around, ctx) or not (in_forward or is_step_loop(loops[0], ctx)):
            return
        where = (
            "on every call; a buffer is copied once" if in_forward else "in every step; once before the loop is enough"
        )
        yield ctx.finding(self, node, f"the same numbers are copied to the device {where}")

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        for cls in ctx.classes():
            forward, begin = cls.members.get("forward"), cls.members.get("__init__")
            if not (isinstance(forward, Function) and isinstance(begin, Function)) or not ctx.is_module_class(cls.node):
                continue
            kept = {name for name, _ in assigned_in(forward.node)}
            for call in nodes_within(forward.node):
                name = _copied(call, ctx) if isinstance(call, ast.Call) else None
                if not isinstance(call, ast.Call) or name is None or not name.startswith("self.") or name in kept:
                    continue
                if is_guarded(call, forward.node, ctx):
                    continue
                made = [statement for bound, statement in assigned_in(begin.node) if bound == name]
                if len(made) == 1:
                    message = (
                        f"`{name}` is copied to the device on every call; register_buffer moves it with the module"
                    )
                    yield ctx.finding(self, made[0], message, related=[("the copy", call)])


def _is_made_of_numbers(call: ast.Call, ctx: Context) -> bool:
    """Say whether a call makes a tensor of several numbers of the text that is, or goes at once, to another device."""
    known = ctx.call(call)
    if known is None or known.operation not in _MAKES or not call.args or not _are_numbers(call.args[0]):
        return False
    parent = ctx.parent(call)
    moved = ctx.parent(parent) if isinstance(parent, ast.Attribute) and parent.attr in _MOVES else call
    made = ctx.tensor(moved) if isinstance(moved, ast.Call) else None
    return made is not None and made.device not in (None, "cpu")


def _are_numbers(node: ast.expr) -> bool:
    if isinstance(node, (ast.List, ast.Tuple)):
        return len(node.elts) > 1 and all(_are_numbers(e) or _is_number(e) for e in node.elts)
    return False


def _is_number(node: ast.expr) -> bool:
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant)


def _copied(call: ast.Call, ctx: Context) -> str | None:
    """Return the name of the tensor of the CPU that a call copies to another device."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _MOVES:
        return None
    name, before, after = dotted_text(call.func.value), ctx.tensor(call.func.value), ctx.tensor(call)
    if name is None or before is None or after is None or before.device != "cpu" or before.buffer or before.parameter:
        return None
    return name if after.device not in (None, "cpu") and not _is_of_data(before) else None


def _is_of_data(tensor: Tensor) -> bool:
    """Say whether a loop over data has given a tensor."""
    return tensor.made_by("batch")


def _fix(call: ast.Call, name: str, loop: Loop, ctx: Context) -> Fix | None:
    """Copy it before the loop, under its own name."""
    used = {n.id for a in (*call.args, *(k.value for k in call.keywords)) for n in walk(a) if isinstance(n, ast.Name)}
    if used & bound_names(loop):
        return None
    text = f"{name} = {ctx.source_of(call)}"
    return ctx.fix("Copy it once, before the loop", ctx.insert_statement(loop, text), ctx.replace(call, name))
