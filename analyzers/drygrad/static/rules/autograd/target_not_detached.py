"""Rule DG121: a bootstrapped target that the loss also trains."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import as_operand
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import Object, Tensor
from drygrad.static.syntax import last_assignment
from drygrad.static.tree import walk

_LOSSES = frozenset({"mse_loss", "smooth_l1_loss", "huber_loss", "l1_loss"})
_BEST = frozenset({"max", "amax", "min", "minimum", "gather"})
_CUTS = frozenset({"detach", "data", "item", "numpy", "tolist", "no_grad"})
_DEPTH = 5


class TargetNotDetached(Rule):
    """
    ## What it does
    Finds temporal-difference losses whose target, `reward + gamma * q_net(next_state).max(1)[0]`, is computed by the
    network being trained and keeps its graph.

    ## Why is this bad?
    Q-learning treats the target as a constant. With its graph, the step also pulls the value of the next state toward
    that of the current one. That is a different algorithm, residual gradient: it learns slowly, and in a stochastic
    environment it converges to the wrong values.

    ## Example
    ```python
    def td_loss(q_net: nn.Module, state, action, reward, next_state, gamma):
        q = q_net(state).gather(1, action)
        target = reward + gamma * q_net(next_state).max(1, keepdim=True)[0]
        return F.mse_loss(q, target)
    ```
    Use instead:
    ```python
    def td_loss(q_net: nn.Module, state, action, reward, next_state, gamma):
        q = q_net(state).gather(1, action)
        target = reward + gamma * q_net(next_state).max(1, keepdim=True)[0]
        return F.mse_loss(q, target.detach())
    ```

    ## Fix safety
    Unsafe: it changes the gradients.
    """

    code, name, since = "DG121", "target-not-detached", "0.1"
    severity = "warning"
    calls = _LOSSES
    VALID = [
        Valid(
            """
            def step(q_net: nn.Linear, s, a, r, s2):
                q = q_net(s).gather(1, a)
                with torch.no_grad():
                    target = r + 0.99 * q_net(s2).max(1, keepdim=True)[0]
                other = r + 0.99 * q_net(s2).max(1, keepdim=True)[0].detach()
                return F.mse_loss(q, target) + F.mse_loss(q, other)
            """
        ),
        Valid(
            """
            def step(q_net: nn.Linear, target_net: nn.Linear, s, a, r, s2):
                q = q_net(s).gather(1, a)
                return F.mse_loss(q, r + 0.99 * target_net(s2).max(1, keepdim=True)[0])
            """
        ),
        Valid("def f(net: nn.Linear, a, b):\n    return F.mse_loss(net(a), net(b)) + F.mse_loss(net(a).max(1)[0], b)"),
    ]
    INVALID = [
        Invalid(
            """
            def step(q_net: nn.Linear, s, a, r, s2, done, gamma):
                q = q_net(s).gather(1, a)
                best = q_net(s2).max(1, keepdim=True)[0]
                target = r + gamma * (1 - done) * best
                loss = F.smooth_l1_loss(q, target)
                return loss
            """,
            """
            def step(q_net: nn.Linear, s, a, r, s2, done, gamma):
                q = q_net(s).gather(1, a)
                best = q_net(s2).max(1, keepdim=True)[0]
                target = r + gamma * (1 - done) * best
                loss = F.smooth_l1_loss(q, target.detach())
                return loss
            """,
            at=(5, 31, 5, 37),
        ),
        Invalid(
            """
            class Agent:
                def __init__(self):
                    self.net = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
                    self.criterion = nn.MSELoss()

                def learn(self, state, action, reward, next_state, gamma=0.99):
                    value = self.net(state)[range(8), action]
                    target = reward + gamma * torch.max(self.net(next_state), dim=1).values
                    loss = self.criterion(value, target)
                    loss.backward()
            """,
            """
            class Agent:
                def __init__(self):
                    self.net = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
                    self.criterion = nn.MSELoss()

                def learn(self, state, action, reward, next_state, gamma=0.99):
                    value = self.net(state)[range(8), action]
                    target = reward + gamma * torch.max(self.net(next_state), dim=1).values
                    loss = self.criterion(value, target.detach())
                    loss.backward()
            """,
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        sides = [call.operand(name) for name in ("input", "target")] if call is not None else []
        if len(sides) != 2 or sides[0] is None or sides[1] is None or ctx.grad_enabled(ctx.statement(node)) is False:
            return
        for target, trained in ((sides[1], sides[0]), (sides[0], sides[1])):
            tensor = ctx.tensor(target)
            if tensor is not None and tensor.requires_grad is False:
                continue
            total = _total(target, ctx)
            best = _best_of(total, ctx) if total is not None else None
            nets = _networks(trained, ctx, _DEPTH)
            if best is None or _networks(best, ctx, _DEPTH).isdisjoint(nets):
                continue
            fix = ctx.fix("Detach the target", ctx.replace(target, f"{as_operand(ctx, target)}.detach()"))
            message = "the target comes from the network being trained and is not detached; the optimizer moves it too"
            yield ctx.finding(self, target, message, related=[("the network computes it here", best)], fixes=[fix])
            return


def _written(node: ast.expr, ctx: Context) -> ast.expr | None:
    """Return an expression, or what its name was last assigned under recorded gradients."""
    if not isinstance(node, ast.Name):
        return node
    given = last_assignment(ctx, node.id, ctx.statement(node))
    return given if given is not None and ctx.grad_enabled(ctx.statement(given)) is not False else None


def _total(target: ast.expr, ctx: Context) -> ast.BinOp | None:
    """Return the sum of a reward and something discounted that a target is."""
    node = _written(target, ctx)
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _LAYOUT:
        node = node.func.value
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
        return None
    products = [part for part in (node.left, node.right) if _is_product(part)]
    return node if len(products) == 1 else None


_LAYOUT = frozenset({"unsqueeze", "squeeze", "view", "reshape", "float"})


def _is_product(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)


def _best_of(node: ast.expr, ctx: Context, depth: int = _DEPTH) -> ast.expr | None:
    """Return the best value of a network's output that an expression holds with its graph."""
    if depth == 0 or any(_cuts(part) for part in walk(node)):
        return None
    for part in walk(node):
        match part:
            case ast.Call(func=ast.Attribute(attr=name)) if name in _BEST:
                return part
            case ast.Name(ctx=ast.Load()):
                given = _written(part, ctx)
                found = _best_of(given, ctx, depth - 1) if given is not None and given is not part else None
                if found is not None:
                    return found
            case _:
                pass
    return None


def _cuts(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in _CUTS


def _networks(node: ast.expr, ctx: Context, depth: int) -> set[str]:
    """Return the names of the modules whose results an expression is computed from."""
    found: set[str] = set()
    for part in walk(node):
        match part:
            case ast.Call(func=function):
                value, text = ctx.value(function), dotted_text(function)
                if text is not None and isinstance(value, Object) and value.is_module:
                    found.add(text)
            case ast.Name(id=name, ctx=ast.Load()) if depth:
                given = last_assignment(ctx, name, ctx.statement(part))
                if given is not None and isinstance(ctx.value(given), Tensor):
                    found |= _networks(given, ctx, depth - 1)
            case _:
                pass
    return found
