"""Rule DG106: backward on a value that left its graph."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.rules.autograd.cutting import Cut, cut_of, roots_of

_UNDONE = frozenset({"item", "detach"})


class BackwardOnCutGraph(Rule):
    """
    ## What it does
    Finds `backward()` on the result of `item()`, `detach()`, `argmax()`, a comparison and the like, or of
    `autograd.grad` without `create_graph=True`. It is reported on the line where the graph ends.

    ## Why is this bad?
    Such a result has no graph: `backward()` raises `element 0 of tensors does not require grad and does not have a
    grad_fn` or, for a Python number, `'float' object has no attribute 'backward'`. Accuracy, computed with `argmax` and
    `==`, is not differentiable and cannot be used as a loss.

    ## Example
    ```python
    loss = criterion(model(x), y).item()
    loss.backward()
    ```
    Use instead:
    ```python
    loss = criterion(model(x), y)
    loss.backward()
    ```

    ## Fix safety
    Unsafe: other uses of the value now get a tensor that keeps its graph.
    """

    code, name, since = "DG106", "backward-on-cut-graph", "0.1"
    severity = "error"
    VALID = [
        Valid("def f(net, x, flag):\n    out = net(x).detach().requires_grad_(flag)\n    out.sum().backward()"),
        Valid("w = torch.rand(3, requires_grad=True)\nloss = (w.detach() * w).sum()\nloss.backward()"),
        Valid("w = torch.rand(3, requires_grad=True)\nloss = w.sum()\nloss.backward()\nloss = loss.item()"),
        Valid("w = torch.rand(3, requires_grad=True)\nloss = w.detach().sum().requires_grad_()\nloss.backward()"),
        Valid(
            "def step(logits, target):\n    loss = F.cross_entropy(logits.detach() + 1, target)\n    loss.backward()"
        ),
        Valid("w = torch.rand(3, requires_grad=True)\nx = w.detach()\nx.requires_grad = True\nx.sum().backward()"),
        Valid("def step(w, hard):\n    loss = w.detach() if hard else w.sum()\n    loss.backward()"),
        Valid(
            "gru = nn.GRU(8, 8)\nout, lengths = nn.utils.rnn.pad_packed_sequence(gru(packed)[0])\n"
            "mask = torch.arange(9)[:, None] < lengths\npooled = (out * mask.unsqueeze(-1)).sum(0) / lengths[:, None]\n"
            "pooled.mean().backward()"
        ),
        Valid("def check(net, x: torch.Tensor):\n    y = net(x)\n    y.backward(torch.randn_like(y))"),
        Valid("def check(net, x: torch.Tensor):\n    y = net(x)['y']\n    y.backward(torch.randn_like(y))"),
        Valid("a = nn.Linear(3, 3)(torch.rand(2, 3))\na[:, 0].backward(torch.ones_like(a[:, 0]))"),
        Valid(  # an image is optimized, not the model that it is compared with
            """
            def fit(flag):
                image = torch.rand(4, requires_grad=True)
                score = nn.Linear(4, 1)(torch.rand(4)).mean().item()
                with torch.set_grad_enabled(flag):
                    loss = (image * score).sum()
                loss.backward()
            """
        ),
        Valid("def f(mask, a, b):\n    torch.where(torch.arange(3) < 2, a, b).sum().backward()"),
    ]
    INVALID = [
        Invalid(
            "def step(net, crit, x, y):\n    loss = float(crit(net(x), y))\n    loss.backward()",
            at=(2, 11, 2, 33),
        ),
        Invalid(
            "def step(net, crit, x, y):\n    loss = crit(net(x), y).data\n    loss.backward()",
            severity="warning",
        ),
        Invalid(
            "w = torch.rand(3, requires_grad=True)\nloss = w.sum().item()\nloss.backward()",
            "w = torch.rand(3, requires_grad=True)\nloss = w.sum()\nloss.backward()",
            at=(2, 7, 2, 21),
        ),
        Invalid(
            "w = torch.rand(3, requires_grad=True)\n(w * 2).sum().detach().backward()",
            "w = torch.rand(3, requires_grad=True)\n(w * 2).sum().backward()",
        ),
        Invalid("w = torch.rand(3, requires_grad=True)\nloss = 1 - (w > 0.5).float().mean()\nloss.backward()"),
        Invalid(
            """
            model = nn.Linear(8, 3)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(10):
                x, y = torch.rand(4, 8), torch.randint(0, 3, (4,))
                optimizer.zero_grad()
                predicted = model(x).argmax(dim=1)
                loss = (predicted != y).float().mean()
                loss.backward()
                optimizer.step()
            """
        ),
        Invalid(
            """
            scorer = nn.Linear(4, 1)

            def score_all(items):
                scores = torch.zeros(len(items))
                for i, item in enumerate(items):
                    scores[i] = scorer(item).item()
                return scores

            loss = F.mse_loss(score_all(torch.randn(6, 4)), torch.randn(6))
            loss.backward()
            """,
            """
            scorer = nn.Linear(4, 1)

            def score_all(items):
                scores = torch.zeros(len(items))
                for i, item in enumerate(items):
                    scores[i] = scorer(item)
                return scores

            loss = F.mse_loss(score_all(torch.randn(6, 4)), torch.randn(6))
            loss.backward()
            """,
            at=(6, 20, 6, 39),
        ),
        Invalid("def step(x):\n    return x.exp().argmax().backward()", at=(2, 11, 2, 27)),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        for root in roots_of(node, ctx):
            cut = cut_of(root, ctx)
            if cut is not None and cut.kind in ("operation", "number"):
                yield self._finding(node, root, cut, ctx)
                return

    def _finding(self, node: ast.Call, root: ast.expr, cut: Cut, ctx: Context) -> Finding:
        place = "here" if cut.at.lineno == node.lineno else f"on line {node.lineno}"
        outcome = f"backward() {place} raises"
        if cut.kind == "number":
            outcome = f"backward() {place} is called on a Python number and raises"
        return ctx.finding(
            self,
            cut.at,
            f"`{ctx.source_of(root)}` is cut from the graph here ({_what(cut.at, ctx)}); {outcome}",
            severity=None if cut.certain else "warning",
            related=[] if place == "here" else [("backward() fails here", root)],
            fixes=[_fix(cut.at, ctx)],
        )


def _what(cut: ast.expr, ctx: Context) -> str:
    match cut:
        case ast.Call(func=ast.Attribute(attr=name)) | ast.Attribute(attr=name):
            return name
        case ast.Compare():
            return "a comparison"
        case _:
            return ctx.source_of(cut)


def _fix(cut: ast.expr, ctx: Context) -> Fix | None:
    """Take back an ``item()`` or ``detach()``; what chose or compared cannot be taken back."""
    match cut:
        case ast.Call(func=ast.Attribute(value=before, attr=name), args=[], keywords=[]) if name in _UNDONE:
            return ctx.fix(f"Remove `{name}()` to keep the graph", ctx.replace(cut, ctx.source_of(before)))
        case _:
            return None
