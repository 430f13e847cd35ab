"""Rule DG109: a graph kept that nobody goes through again."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context, Loop
from drygrad.static.facts.values import Constant, Number, Object, ParameterList, Sequence, Tensor, Value
from drygrad.static.rules.autograd.graph import ancestors
from drygrad.static.syntax import nodes_within, scope_of
from drygrad.static.tree import walk


class NeedlessRetainGraph(Rule):
    """
    ## What it does
    Finds `backward(retain_graph=True)` in a loop that builds a new graph in each iteration and uses it only once.

    ## Why is this bad?
    Normally, backward frees saved tensors as it goes. Here they live until the next iteration rebinds the loss, so two
    graphs are alive during the next forward. For eight linear layers this doubles the peak of saved memory.

    A loop is reported only if the file shows all of it: known modules, no state carried between iterations, no second
    backward and no `torch.autograd.grad` in the function.

    ## Example
    ```python
    model = nn.Linear(8, 4)
    for _ in range(steps):
        loss = model(torch.rand(16, 8)).square().mean()
        loss.backward(retain_graph=True)
    ```
    Use instead:
    ```python
    model = nn.Linear(8, 4)
    for _ in range(steps):
        loss = model(torch.rand(16, 8)).square().mean()
        loss.backward()
    ```

    ## Fix safety
    Unsafe: code in another file may backpropagate through the graph again.
    """

    code, name, since = "DG109", "needless-retain-graph", "0.1"
    severity = "hint"
    calls = frozenset({"backward"})
    VALID = [
        Valid("fc = nn.Linear(2, 2)\nfor _ in range(3):\n    loss = fc(torch.rand(2)).sum()\n    loss.backward()"),
        Valid(
            "fc = nn.Linear(2, 2)\nfor _ in range(3):\n    out = fc(torch.rand(2))\n"
            "    out.sum().backward(retain_graph=True)\n    out.mean().backward()"
        ),
        Valid(
            "fc = nn.Linear(2, 2)\nshared = fc(torch.rand(2))\nfor i in range(3):\n    loss = (shared * i).sum()\n"
            "    loss.backward(retain_graph=True)"
        ),
        Valid(
            "fc = nn.Linear(2, 2)\nh = torch.zeros(2)\nfor _ in range(3):\n    h = torch.tanh(fc(h))\n"
            "    loss = h.sum()\n    loss.backward(retain_graph=True)"
        ),
        Valid(
            "def f(net, x):\n    for _ in range(3):\n        loss = net(x)\n        loss.backward(retain_graph=True)"
        ),
        Valid(
            "fc = nn.Linear(2, 2)\nfor _ in range(3):\n    loss = fc(torch.rand(2)).sum()\n"
            "    loss.backward(retain_graph=True)\n    keep(loss)"
        ),
        Valid("fc = nn.Linear(2, 2)\nloss = fc(torch.rand(2)).sum()\nloss.backward(retain_graph=True)"),
    ]
    INVALID = [
        Invalid(
            "fc = nn.Linear(2, 2)\nfor _ in range(3):\n    loss = fc(torch.rand(2)).sum()\n"
            "    loss.backward(retain_graph=True)",
            "fc = nn.Linear(2, 2)\nfor _ in range(3):\n    loss = fc(torch.rand(2)).sum()\n    loss.backward()",
            at=(4, 18, 4, 35),
        ),
        Invalid(
            """
            model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
            optimizer = torch.optim.Adam(model.parameters())
            criterion = nn.CrossEntropyLoss()
            running = 0.0
            for step in range(100):
                x, y = torch.rand(4, 8), torch.randint(0, 3, (4,))
                optimizer.zero_grad()
                logits = model(x)
                loss = criterion(logits, y)
                loss.backward(retain_graph=True, inputs=list(model.parameters()))
                optimizer.step()
                running += loss.item()
            """,
            """
            model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
            optimizer = torch.optim.Adam(model.parameters())
            criterion = nn.CrossEntropyLoss()
            running = 0.0
            for step in range(100):
                x, y = torch.rand(4, 8), torch.randint(0, 3, (4,))
                optimizer.zero_grad()
                logits = model(x)
                loss = criterion(logits, y)
                loss.backward(inputs=list(model.parameters()))
                optimizer.step()
                running += loss.item()
            """,
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call, loops = ctx.call(node), ctx.loops(node)
        given = next((k for k in node.keywords if k.arg == "retain_graph"), None)
        if call is None or given is None or not loops or call.constant("retain_graph", False) is not True:
            return
        loss = ctx.tensor(call.operands[0]) if call.operands else None
        if loss is None or not loss.requires_grad or call.constant("create_graph", False) is not False:
            return
        if not _is_made_within(loss, loops[0]) or _is_used_again(node, loss, ctx):
            return
        yield ctx.finding(
            self,
            node,
            "retain_graph=True keeps this graph alive, but nothing uses it again",
            span=ctx.source.span(given),
            fixes=[ctx.fix("Remove `retain_graph=True`", ctx.remove_keyword(node, "retain_graph"))],
        )


def _is_made_within(loss: Tensor, loop: Loop) -> bool:
    """Say whether every operation behind a loss runs anew in each pass, on leaves and known values."""
    inside = {id(node) for statement in loop.body for node in walk(statement)}
    for tensor in ancestors(loss):
        if tensor.leaf and tensor.origin is None:
            continue
        if tensor.requires_grad is False or tensor.parameter:
            continue
        if tensor.origin is None or tensor.requires_grad is None or id(tensor.origin.node) not in inside:
            return False
        if not all(_is_known(value) for value in tensor.origin.operands):
            return False
    return True


def _is_known(value: Value) -> bool:
    return isinstance(value, (Tensor, Constant, Number, Object, ParameterList, Sequence))


def _is_used_again(node: ast.Call, loss: Tensor, ctx: Context) -> bool:
    """Say whether anything else in the function may go through the graph, or keep it for that."""
    graph = {id(t.origin.node) for t in ancestors(loss) if t.origin is not None and t.requires_grad}
    for other in nodes_within(scope_of(node, ctx)):
        if isinstance(other, ast.Return) and other.value is not None and _is_of(ctx.value(other.value), graph):
            return True
        if not isinstance(other, ast.Call) or other is node:
            continue
        called = ast.unparse(other.func)
        if "backward" in called or called.endswith("autograd.grad") or called == "grad":
            return True
        if ctx.call(other) is None and any(_is_of(ctx.value(argument), graph) for argument in other.args):
            return True
    return False


def _is_of(value: Value, graph: set[int]) -> bool:
    return any(t.origin is not None and id(t.origin.node) in graph and t.requires_grad for t in ancestors(value))
