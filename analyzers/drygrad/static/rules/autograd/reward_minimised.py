"""Rule DG124: a policy gradient that lowers the reward."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import as_operand
from drygrad.static.syntax import called, last_assignment
from drygrad.static.tree import walk

_LOG_PROBABILITY = re.compile(r"log_?(prob|pi|p)s?(_|$|\d)", re.I)
_REWARD = re.compile(r"(^|_)(rewards?|returns?|advantages?|adv|advs|discounted\w*|G)(_|$|\d)")
_COST = re.compile(r"cost|loss|regret|penalt|neg", re.I)
_REDUCES = frozenset({"sum", "mean"})


class RewardMinimised(Rule):
    """
    ## What it does
    Finds `loss = (log_prob * reward).mean()` followed by `backward()`: a log-probability times a reward, a return or an
    advantage, without a minus sign.

    ## Why is this bad?
    Optimizers minimize. Without the minus sign, actions with a high reward become less likely: the policy learns to
    lose, while the loss keeps falling.

    ## Example
    ```python
    loss = (log_probs * returns).mean()
    loss.backward()
    ```
    Use instead:
    ```python
    loss = -(log_probs * returns).mean()
    loss.backward()
    ```

    ## Fix safety
    Unsafe: it flips the sign of the gradients.
    """

    code, name, since = "DG124", "reward-minimised", "0.1"
    severity = "warning"
    VALID = [
        Valid("def f(log_probs, returns):\n    loss = -(log_probs * returns).mean()\n    loss.backward()"),
        Valid("def f(log_probs, returns):\n    loss = (-log_probs * returns).sum()\n    loss.backward()"),
        Valid("def f(log_probs, returns):\n    objective = (log_probs * returns).sum()\n    (-objective).backward()"),
        Valid(
            "def f(p, log_probs, returns):\n    o = torch.optim.Adam(p, maximize=True)\n"
            "    loss = (log_probs * returns).sum()\n    loss.backward()"
        ),
        Valid("def f(log_prob, costs):\n    loss = (log_prob * costs).mean()\n    loss.backward()"),
        Valid("def f(neg_log_prob, reward):\n    loss = (neg_log_prob * reward).mean()\n    loss.backward()"),
    ]
    INVALID = [
        Invalid(
            "def f(log_probs, returns):\n    loss = (torch.stack(log_probs) * returns).sum()\n    loss.backward()",
            "def f(log_probs, returns):\n    loss = -(torch.stack(log_probs) * returns).sum()\n    loss.backward()",
            at=(2, 11, 2, 51),
        ),
        Invalid(
            "def f(dist, action, advantage):\n"
            "    policy_loss = torch.mean(dist.log_prob(action) * advantage.detach())\n"
            "    policy_loss.backward()",
            "def f(dist, action, advantage):\n"
            "    policy_loss = -torch.mean(dist.log_prob(action) * advantage.detach())\n"
            "    policy_loss.backward()",
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name) as root, attr="backward")):
                made = last_assignment(ctx, name, ctx.statement(node))
            case _:
                return
        product = _product(made) if made is not None else None
        if made is None or product is None or ctx.derived(_maximises):
            return
        for log_probability, reward in ((product.left, product.right), (product.right, product.left)):
            if _is_log_probability(log_probability, ctx) and _is_reward(reward, ctx):
                fix = ctx.fix("Flip the sign", ctx.replace(made, f"-{as_operand(ctx, made)}"))
                message = "the optimizer minimizes this, which makes actions with a high reward less likely"
                yield ctx.finding(self, made, message, related=[("backward() is called here", root)], fixes=[fix])
                return


def _product(node: ast.expr) -> ast.BinOp | None:
    """Return the product whose sum or mean an expression is."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name), args=[inner, *_]) if name in _REDUCES:
            pass
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _REDUCES:
            pass
        case _:
            inner = node
    return inner if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Mult) else None


def _names(node: ast.expr) -> list[str]:
    return [n.id if isinstance(n, ast.Name) else n.attr for n in walk(node) if isinstance(n, (ast.Name, ast.Attribute))]


def _is_log_probability(node: ast.expr, ctx: Context) -> bool:
    if _is_turned(node, ctx):
        return False
    names = _names(node)
    return any(_LOG_PROBABILITY.search(n) for n in names) and not any(
        _COST.search(n) or _REWARD.search(n) for n in names
    )


def _is_reward(node: ast.expr, ctx: Context) -> bool:
    if _is_turned(node, ctx):
        return False
    names = _names(node)
    return any(_REWARD.search(name) for name in names) and not any(_COST.search(name) for name in names)


def _is_turned(node: ast.expr, ctx: Context) -> bool:
    """Say whether a sign is turned in a factor, or where its name was last assigned."""
    if any(
        isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.USub) and not isinstance(n.operand, ast.Constant)
        for n in walk(node)
    ):
        return True
    for name in (n for n in walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)):
        given = last_assignment(ctx, name.id, ctx.statement(name))
        if given is not None and any(isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.USub) for n in walk(given)):
            return True
    return False


def _maximises(ctx: Context) -> bool:
    """Say whether a file speaks of going uphill."""
    if any(keyword.arg == "maximize" for keyword in ctx.nodes(ast.keyword)):
        return True
    return any(called(call) in ("neg", "neg_") for call in ctx.nodes(ast.Call))
