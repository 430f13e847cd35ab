"""Rule DG120: an advantage that carries the critic's graph into the policy's loss."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context, FunctionNode
from drygrad.static.facts.values import Tensor
from drygrad.static.syntax import nodes_within

_LOG_PROBABILITY = re.compile(
    r"^(new_?|action_?|selected_?|chosen_?)*log_?(p|pi|pr|prob|probs|pis|probabilit\w+)s?(_\w+)?$"
)
_LOSSES = re.compile(
    r"(mse|huber|l1|smooth_l1|value|critic|mse_?loss)_?(loss|criterion|fn)?$|^(criterion|MSELoss|loss_fn)$", re.I
)
_LAYOUT = frozenset("squeeze unsqueeze view reshape flatten float view_as expand_as".split())
_CUTS = frozenset({"detach", "item", "numpy", "tolist", "cpu"})


class AdvantageNotDetached(Rule):
    """
    ## What it does
    Finds actor-critic losses: a log-probability times an advantage, `returns - values`, that was not detached, where
    the same values are fitted to the returns by another term of the same loss.

    ## Why is this bad?
    The advantage is to weigh the policy's gradient, and nothing else. With its graph the policy's term has a gradient
    for the critic, too: it pushes the values by the log-probabilities, against what the critic's own term
    wants. Nothing raises; training is unstable, or learns slowly.

    ## Example
    ```python
    advantage = returns - values
    policy_loss = -(log_probs * advantage).mean()
    loss = policy_loss + 0.5 * advantage.pow(2).mean()
    ```
    Use instead:
    ```python
    advantage = returns - values
    policy_loss = -(log_probs * advantage.detach()).mean()
    loss = policy_loss + 0.5 * advantage.pow(2).mean()
    ```

    ## Fix safety
    Unsafe: the gradients of the critic change.
    """

    code, name, since = "DG120", "advantage-not-detached", "0.1"
    VALID = [
        Valid(
            """
            def update(actor, critic, states, actions, returns):
                values = critic(states).squeeze(-1)
                log_probs = actor(states).log_prob(actions)
                advantage = returns - values.detach()
                loss = -(log_probs * advantage).mean() + F.mse_loss(values, returns)
                loss.backward()
            """
        ),
        Valid(
            """
            def update(actor, states, actions, returns, values):
                advantage = returns - values  # of the rollout: no graph
                loss = -(actor(states).log_prob(actions) * advantage).mean()
                loss.backward()
            """
        ),
        Valid(
            """
            def update(actor, critic, actor_optimizer, critic_optimizer, states, actions, returns):
                advantage = returns - critic(states)
                actor_loss = -(actor(states).log_prob(actions) * advantage).mean()
                actor_optimizer.zero_grad()
                actor_loss.backward(retain_graph=True)
                actor_optimizer.step()
                critic_loss = advantage.pow(2).mean()
                critic_optimizer.zero_grad()
                critic_loss.backward()
                critic_optimizer.step()
            """
        ),
        Valid(
            """
            def update(actor, critic, states, actions, returns):
                values = critic(states)
                with torch.no_grad():
                    advantage = returns - values
                loss = -(actor(states).log_prob(actions) * advantage).mean() + F.mse_loss(values, returns)
                loss.backward()
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            def update(actor, critic, states, actions, returns):
                values = critic(states).squeeze(-1)
                dist = actor(states)
                advantage = returns - values
                policy_loss = -(dist.log_prob(actions) * advantage).mean()
                value_loss = advantage.pow(2).mean()
                loss = policy_loss + 0.5 * value_loss - 0.01 * dist.entropy().mean()
                loss.backward()
            """,
            """
            def update(actor, critic, states, actions, returns):
                values = critic(states).squeeze(-1)
                dist = actor(states)
                advantage = returns - values
                policy_loss = -(dist.log_prob(actions) * advantage.detach()).mean()
                value_loss = advantage.pow(2).mean()
                loss = policy_loss + 0.5 * value_loss - 0.01 * dist.entropy().mean()
                loss.backward()
            """,
            at=(5, 45, 5, 54),
        ),
        Invalid(
            """
            def loss(log_probs, values, returns, weight):
                advantages = returns - values
                advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
                actor_loss = (-log_probs * advantages).mean()
                critic_loss = F.smooth_l1_loss(values, returns)
                return actor_loss + weight * critic_loss
            """,
            """
            def loss(log_probs, values, returns, weight):
                advantages = returns - values
                advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
                actor_loss = (-log_probs * advantages.detach()).mean()
                critic_loss = F.smooth_l1_loss(values, returns)
                return actor_loss + weight * critic_loss
            """,
        ),
    ]

    def visit_function(self, node: ast.FunctionDef, ctx: Context) -> Iterator[Finding]:
        products = [n for n in nodes_within(node) if isinstance(n, ast.BinOp)]
        for product, advantage in ((product, _advantage(product)) for product in products):
            if advantage is None:
                continue
            critic = _critic_loss(node, product, advantage, ctx)
            if critic is not None and _are_summed(node, product, critic):
                yield ctx.finding(
                    self,
                    advantage,
                    f"`{advantage.id}` carries the graph of the values into the policy's loss, which then trains the "
                    "critic, too",
                    related=[("the values are fitted here", critic)],
                    fixes=[ctx.fix("Detach the advantage", ctx.replace(advantage, f"{advantage.id}.detach()"))],
                )


def _advantage(product: ast.BinOp) -> ast.Name | None:
    """Return the name that a log-probability is multiplied by."""
    if not isinstance(product.op, ast.Mult):
        return None
    for factor, other in ((product.left, product.right), (product.right, product.left)):
        if _is_log_probability(factor):
            bare = _bare(other)
            return bare if isinstance(bare, ast.Name) else None
    return None


def _is_log_probability(node: ast.expr) -> bool:
    bare = _bare(node)
    if isinstance(bare, ast.Call) and isinstance(bare.func, ast.Attribute):
        return bare.func.attr == "log_prob" or (
            bare.func.attr in ("sum", "mean") and _is_log_probability(bare.func.value)
        )
    name = bare.id if isinstance(bare, ast.Name) else bare.attr if isinstance(bare, ast.Attribute) else ""
    return _LOG_PROBABILITY.match(name) is not None


def _bare(node: ast.expr) -> ast.expr:
    """Return an expression without its sign and its layout."""
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _bare(operand)
        case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in _LAYOUT:
            return _bare(value)
        case _:
            return node


def _critic_loss(function: FunctionNode, product: ast.BinOp, advantage: ast.Name, ctx: Context) -> ast.expr | None:
    """Return the term that fits the values, of which the advantage is computed, with their graph."""
    bound = [s for s in nodes_within(function) if isinstance(s, ast.Assign) and _binds(s, advantage.id)]
    bound = [s for s in bound if s.lineno < product.lineno]
    differences = [s.value for s in bound if isinstance(s.value, ast.BinOp) and isinstance(s.value.op, ast.Sub)]
    if not differences or any(_is_cut(s, ctx) for s in bound):
        return None
    first = differences[0]
    names = {n.id for side in (first.left, first.right) if isinstance(n := _bare(side), ast.Name)}
    for node in nodes_within(function):
        if isinstance(node, ast.expr) and _fits(node, advantage.id, names):
            return node
    return None


def _binds(statement: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in statement.targets)


def _is_cut(statement: ast.Assign, ctx: Context) -> bool:
    """Say whether what a statement binds has no graph, or may have none."""
    called = (n.func.attr for n in ast.walk(statement) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute))
    value = ctx.value(statement.value)
    constant = isinstance(value, Tensor) and value.requires_grad is False
    return constant or ctx.grad_enabled(statement) is False or not _CUTS.isdisjoint(called)


def _fits(node: ast.expr, advantage: str, names: set[str]) -> bool:
    """Say whether an expression squares the advantage, or is a loss of one of the names and nothing detached."""
    match node:
        case ast.BinOp(left=ast.Name(id=name), op=ast.Pow()) if name == advantage:
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="pow" | "square" | "abs")) if name == advantage:
            return True
        case ast.Call(func=ast.Attribute(attr=function) | ast.Name(id=function), args=[first, second, *_]):
            given = [bare.id for bare in map(_bare, (first, second)) if isinstance(bare, ast.Name)]
            return (
                _LOSSES.search(function) is not None
                and (len(given) == 2 or _detached(second))
                and bool(names.intersection(given[:1]))
            )
        case _:
            return False


def _detached(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "detach"


def _are_summed(function: FunctionNode, product: ast.expr, critic: ast.expr) -> bool:
    """Say whether one sum of the function has both terms, as they are or by their names."""
    mine, its = _names_of(function, product), _names_of(function, critic)
    for node in nodes_within(function):
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            inner = [*ast.walk(node)]
            names = {n.id for n in inner if isinstance(n, ast.Name)}
            if (product in inner or mine & names) and (critic in inner or its & names):
                return True
    return False


def _names_of(function: FunctionNode, term: ast.expr) -> set[str]:
    """Return the names that a term of the loss is assigned to."""
    holders = (s for s in nodes_within(function) if isinstance(s, ast.Assign) and term in ast.walk(s.value))
    return {t.id for s in holders for t in s.targets if isinstance(t, ast.Name)}
