"""Rule DG105: a loss copied out of its graph."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Severity, Valid
from drygrad.static.context import Context, FunctionNode
from drygrad.static.editing import as_operand
from drygrad.static.facts.values import Sequence, Tensor
from drygrad.static.rules.autograd.cutting import cut_of, idle_leaf, number_behind, roots_of
from drygrad.static.rules.autograd.ends import ends_of_training
from drygrad.static.rules.autograd.graph import COPIES, computed_from, recorded
from drygrad.static.syntax import nodes_within, scope_of
from drygrad.static.tree import walk


class GraphCutByCopy(Rule):
    """
    ## What it does
    Finds `torch.tensor(...)`, `torch.FloatTensor(...)` and the like applied to tensors that require grad, or to numbers
    taken from them with `item()`, if the copy is then used as the loss. If such numbers are summed first, the finding
    is on the line that calls `item()`.

    ## Why is this bad?
    The copy has the values but not the graph. `backward()` on it raises `element 0 of tensors does not require grad`;
    with `requires_grad=True` it runs, stops at the copy, and the model learns nothing.

    ## Example
    ```python
    scores = nn.Linear(8, 4)(x)
    loss = torch.tensor([F.cross_entropy(scores, y), scores.square().mean()]).sum()
    loss.backward()
    ```
    Use instead:
    ```python
    scores = nn.Linear(8, 4)(x)
    loss = torch.stack([F.cross_entropy(scores, y), scores.square().mean()]).sum()
    loss.backward()
    ```

    ## Fix safety
    Unsafe: the loss now keeps its graph.
    """

    code, name, since = "DG105", "graph-cut-by-copy", "0.1"
    severity = "error"
    VALID = [
        Valid(
            """
            model = nn.Linear(8, 3)
            total = 0
            for x, y, weight in loader:
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                total += loss.item() * weight
            print(torch.tensor(total / len(loader), requires_grad=True))
            """
        ),
        Valid("""
            def attack(net, crit, x, y, eps):
                x = x.detach().clone().requires_grad_(True)
                crit(net(x), y).backward()
                return x + eps * x.grad.sign()
        """),
        Valid("w = torch.rand(3, requires_grad=True)\ntorch.stack([w.sum(), w.mean()]).sum().backward()"),
        Valid("w = torch.rand(3, requires_grad=True)\nshown = torch.tensor([w.sum(), w.mean()])\nw.sum().backward()"),
        Valid("w = torch.rand(3, requires_grad=True)\ntorch.as_tensor(w).sum().backward()"),
        Valid("w = torch.rand(3, requires_grad=True)\nx = torch.tensor([1.0, 2.0, 3.0])\n(w * x).sum().backward()"),
        Valid(
            "w = torch.rand(3, requires_grad=True)\nscale = torch.tensor(w.max())\n(w / scale).sum().backward()",
        ),
        Valid("w = torch.rand(3, requires_grad=True)\nx = torch.tensor(w, requires_grad=True)\nprint(x)"),
        Valid("class Best(nn.Module):\n    def forward(self, x):\n        return torch.tensor([s.max() for s in x])"),
    ]
    INVALID = [
        Invalid(  # where the numbers leave the graph, not where they become a tensor
            """
            def scores(model, items):
                values = []
                for item in items:
                    values.append(model(item).sum().item())
                return torch.from_numpy(np.array(values)).requires_grad_()

            model = nn.Linear(4, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(3):
                optimizer.zero_grad()
                scores(model, torch.randn(5, 4)).mean().backward()
                optimizer.step()
            """,
            at=(4, 22, 4, 46),
            severity="warning",
        ),
        Invalid(
            """
            model = nn.Linear(8, 3)
            optimizer = torch.optim.Adam(model.parameters())
            total = 0
            for x, y, weight in loader:
                total += F.cross_entropy(model(x), y).item() * weight
            loss = torch.tensor(total / len(loader), requires_grad=True)
            loss.backward()
            optimizer.step()
            """,
            at=(5, 13, 5, 48),
            severity="warning",
        ),
        Invalid(
            """
            def step(net, crit, opt, x, y):
                opt.zero_grad()
                loss = crit(net(x), y)
                loss = torch.tensor(loss.item(), requires_grad=True)
                loss.backward()
                opt.step()
            """,
            at=(4, 11, 4, 56),
            severity="warning",
        ),
        Invalid(
            """
            def step(net, crit, opt, x, y):
                opt.zero_grad()
                loss = torch.FloatTensor([crit(net(x), y)]).mean()
                loss.backward()
                opt.step()
            """,
            severity="warning",
        ),
        Invalid(
            "w = torch.rand(3, requires_grad=True)\nloss = torch.tensor([w.sum(), w.mean()]).sum()\nloss.backward()",
            "w = torch.rand(3, requires_grad=True)\nloss = torch.stack([w.sum(), w.mean()]).sum()\nloss.backward()",
            at=(2, 7, 2, 40),
        ),
        Invalid(
            "w = torch.rand(3, requires_grad=True)\nloss = torch.tensor(w.sum() * 2, requires_grad=True)\n"
            "loss.backward()",
            "w = torch.rand(3, requires_grad=True)\nloss = (w.sum() * 2).clone()\nloss.backward()",
            severity="warning",
        ),
        Invalid(
            """
            model = nn.Linear(8, 3)
            optimizer = torch.optim.Adam(model.parameters())
            criterion = nn.CrossEntropyLoss()
            for _ in range(10):
                losses = []
                for _ in range(4):
                    x, y = torch.rand(16, 8), torch.randint(0, 3, (16,))
                    losses.append(criterion(model(x), y))
                optimizer.zero_grad()
                loss = torch.FloatTensor(losses).mean()
                loss.requires_grad = True
                loss.backward()
                optimizer.step()
            """,
            """
            model = nn.Linear(8, 3)
            optimizer = torch.optim.Adam(model.parameters())
            criterion = nn.CrossEntropyLoss()
            for _ in range(10):
                losses = []
                for _ in range(4):
                    x, y = torch.rand(16, 8), torch.randint(0, 3, (16,))
                    losses.append(criterion(model(x), y))
                optimizer.zero_grad()
                loss = torch.stack(losses).mean()
                loss.backward()
                optimizer.step()
            """,
            severity="warning",
        ),
        Invalid(
            """
            class Pair(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.score = nn.Linear(3, 1)

                def forward(self, a, b):
                    return torch.tensor([self.score(a).sum(), self.score(b).sum()])
            """,
            """
            class Pair(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.score = nn.Linear(3, 1)

                def forward(self, a, b):
                    return torch.stack([self.score(a).sum(), self.score(b).sum()])
            """,
            severity="warning",
        ),
        Invalid(
            "def total_loss(logits, y):\n    a = F.cross_entropy(logits.requires_grad_(), y)\n"
            "    return torch.tensor([a, 2 * a]).sum()",
            "def total_loss(logits, y):\n    a = F.cross_entropy(logits.requires_grad_(), y)\n"
            "    return torch.stack([a, 2 * a]).sum()",
            severity="warning",
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        yield from self._differentiated(node, ctx)
        copy = ctx.tensor(node)
        if copy is None or not copy.made_by(*COPIES) or not node.args or not recorded(ctx, node):
            return
        source = ctx.value(node.args[0])
        if copy.cut is not node or copy.origin is None or copy.origin.node is not node:
            return
        raises = _backward(node, copy, ctx)
        if raises is None and not _is_returned_loss(node, ctx):
            return
        copies = ctx.source_of(node.func)
        what = "the tensors in a list" if isinstance(source, Sequence) else f"`{ctx.source_of(node.args[0])}`"
        outcome = "raises" if raises or raises is None else "stops here and reaches no parameter"
        yield ctx.finding(
            self,
            node,
            f"`{copies}` copies the values of {what} but not the graph; backward() {outcome}",
            severity="error" if raises else "warning",
            fixes=[_fix(node, source, ctx)],
        )

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        for end in ctx.derived(ends_of_training):
            at = end.cut.at
            if end.code == self.code and not (isinstance(at, ast.Call) and any(self.visit_call(at, ctx))):
                yield end.finding(self, ctx)

    def _differentiated(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        """Find a copy by the backward that is called on it, also where nobody knows what was copied."""
        for root in roots_of(node, ctx):
            cut, leaf = cut_of(root, ctx), idle_leaf(root, ctx)
            if cut is not None and cut.kind == "copy":
                yield self._told(
                    cut.at, f"backward() on line {node.lineno} raises", "error" if cut.certain else "warning", ctx
                )
            elif leaf is not None:
                yield self._leaf(leaf, ctx)

    def _leaf(self, leaf: ast.expr, ctx: Context) -> Finding:
        """Blame the copy, or what took the numbers out of the graph that it was made of."""
        number = number_behind(leaf, ctx)
        if number is None:
            return self._told(leaf, "backward() stops here and reaches no parameter", "warning", ctx)
        message = (
            f"`{ctx.source_of(number)}` leaves the graph; backward() on the sum of such numbers reaches no parameter"
        )
        related = [("a tensor is made of the sum here", leaf)]
        return ctx.finding(self, number, message, severity="warning", related=related)

    def _told(self, at: ast.expr, outcome: str, severity: Severity, ctx: Context) -> Finding:
        message = f"`{ctx.source_of(at)}` copies the values but not the graph; {outcome}"
        return ctx.finding(self, at, message, severity=severity)


def _backward(node: ast.Call, copy: Tensor, ctx: Context) -> bool | None:
    """Return whether backward on what is made of a copy raises; None where there is no such backward."""
    for call in ctx.facts.recording.calls.values():
        if call.operation != "backward" or not call.operands:
            continue
        loss = ctx.tensor(call.operands[0])
        if loss is None or not computed_from(loss, node):
            continue
        if loss.requires_grad is False:
            return True
        if loss.requires_grad and _is_all_behind(loss, node):
            return False
    return None


def _is_all_behind(loss: Tensor, node: ast.Call) -> bool:
    """Say whether all that requires grad in a loss comes through the copy."""
    waiting = [loss]
    while waiting:
        tensor = waiting.pop()
        if tensor.origin is None:
            return False
        if tensor.origin.node is node:
            continue
        operands = [v for v in tensor.origin.operands if isinstance(v, Tensor)]
        if not operands and tensor.requires_grad is not False:
            return False
        waiting.extend(operands)
    return True


def _is_returned_loss(node: ast.Call, ctx: Context) -> bool:
    """Say whether a function that is named a loss returns what is made of a copy."""
    function = ctx.function(node)
    if function is None or not ("loss" in function.name.lower() or _is_forward_of_parameters(function, node, ctx)):
        return False
    returns = (n for n in walk(function) if isinstance(n, ast.Return))
    values = [ctx.tensor(n.value) for n in returns]
    return any(v is not None and v.requires_grad is False and v.cut is node for v in values)


def _is_forward_of_parameters(function: FunctionNode, node: ast.Call, ctx: Context) -> bool:
    """Say whether a module's ``forward`` copies what it has computed with its own parameters."""
    cls = ctx.parent(function)
    if function.name != "forward" or not isinstance(cls, ast.ClassDef) or not ctx.is_module_class(cls):
        return False
    source = ctx.value(node.args[0])
    items = (source.items or (source.element,)) if isinstance(source, Sequence) else (source,)
    return all(isinstance(item, Tensor) and item.requires_grad for item in items)


def _fix(node: ast.Call, source: object, ctx: Context) -> Fix | None:
    """Stack a list of tensors; copy one tensor with its graph."""
    torch, given = ctx.imported_as("torch"), node.args[0]
    others = [k for k in node.keywords if k.arg != "requires_grad"]
    if len(node.args) != 1 or others or torch is None:
        return None
    flags = [ctx.delete_statement(statement) for statement in _flags(node, ctx)]
    if isinstance(source, Tensor):
        return ctx.fix(
            "Use `clone()`, which keeps the graph", ctx.replace(node, f"{as_operand(ctx, given)}.clone()"), *flags
        )
    elements = source.items if isinstance(source, Sequence) and source.items is not None else None
    if isinstance(source, Sequence) and all(isinstance(v, Tensor) for v in elements or (source.element,)):
        return ctx.fix("Use `torch.stack`", ctx.replace(node, f"{torch}.stack({ctx.source_of(given)})"), *flags)
    return None


def _flags(node: ast.Call, ctx: Context) -> Iterator[ast.Assign]:
    """Yield the statements that set ``requires_grad`` on what is made of a copy: on a result of a graph they raise."""
    for statement in nodes_within(scope_of(node, ctx)):
        match statement:
            case ast.Assign(targets=[ast.Attribute(value=owner, attr="requires_grad")]):
                if computed_from(ctx.value(owner), node):
                    yield statement
            case _:
                pass
