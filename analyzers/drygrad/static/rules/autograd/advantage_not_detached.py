"""Rule DG120: an advantage that carries the critic's graph into the policy's loss."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TypeGuard

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context, FunctionNode
from drygrad.static.editing import as_operand
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
    Finds actor-critic losses that multiply a log-probability by an advantage, `returns - values`, without detaching it,
    while another term of the same loss fits these values to the returns.

    ## Why is this bad?
    The advantage should only weight the policy gradient. If it keeps the critic's graph, the policy loss also trains
    the critic: it shifts the values to suit the log-probabilities, against the critic's own loss. Nothing raises;
    training is unstable or slow.

    ## Example
    ```python
    def update(actor, critic, states, actions, returns):
        advantage = returns - critic(states)
        policy_loss = -(actor(states).log_prob(actions) * advantage).mean()
        loss = policy_loss + 0.5 * advantage.pow(2).mean()
        loss.backward()
    ```
    Use instead:
    ```python
    def update(actor, critic, states, actions, returns):
        advantage = returns - critic(states)
        policy_loss = -(actor(states).log_prob(actions) * advantage.detach()).mean()
        loss = policy_loss + 0.5 * advantage.pow(2).mean()
        loss.backward()
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
        Valid(
            """
            def update(actor, critic, states, actions, returns, old_values):
                advantage = returns - old_values  # of the rollout: no graph
                policy_loss = -(actor(states).log_prob(actions) * advantage).mean()
                value_loss = F.mse_loss(returns, critic(states)) + (returns - critic(states)).pow(2).mean()
                (policy_loss + value_loss).backward()
            """
        ),
        Valid(
            """
            def finish(saved, returns):
                policy_losses, value_losses = [], []
                for (log_prob, value), target in zip(saved, returns):
                    advantage = target - value.item()
                    policy_losses.append(-log_prob * advantage)
                    value_losses.append((value - target) ** 2)
                loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
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
                advantages = returns - values.detach()
                advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
                actor_loss = (-log_probs * advantages).mean()
                critic_loss = F.smooth_l1_loss(values, returns)
                return actor_loss + weight * critic_loss
            """,
            at=(2, 17, 2, 33),
        ),
        Invalid(
            """
            def update(actor, critic, states, actions, returns):
                values = critic(states)
                policy_loss = -(actor(states).log_prob(actions) * (returns - values)).mean()
                value_loss = (returns - values).pow(2).mean()
                (policy_loss + 0.5 * value_loss).backward()
            """,
            """
            def update(actor, critic, states, actions, returns):
                values = critic(states)
                policy_loss = -(actor(states).log_prob(actions) * (returns - values.detach())).mean()
                value_loss = (returns - values).pow(2).mean()
                (policy_loss + 0.5 * value_loss).backward()
            """,
        ),
        Invalid(
            """
            def finish(saved, returns):
                policy_losses, value_losses = [], []
                for (log_prob, value), target in zip(saved, returns):
                    advantage = target - value
                    policy_losses.append(-log_prob * advantage)
                    value_losses.append(torch.square(value - target))
                loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
                loss.backward()
            """,
            """
            def finish(saved, returns):
                policy_losses, value_losses = [], []
                for (log_prob, value), target in zip(saved, returns):
                    advantage = target - value.detach()
                    policy_losses.append(-log_prob * advantage)
                    value_losses.append(torch.square(value - target))
                loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
                loss.backward()
            """,
        ),
    ]

    def visit_function(self, node: ast.FunctionDef, ctx: Context) -> Iterator[Finding]:
        products = [n for n in nodes_within(node) if isinstance(n, ast.BinOp)]
        for product, advantage in ((product, _advantage(product)) for product in products):
            difference = _difference(node, product, advantage, ctx) if advantage is not None else None
            if advantage is None or difference is None:
                continue
            critic = _critic_loss(node, advantage, difference)
            if critic is not None and _are_summed(node, product, critic):
                yield self._finding(ctx, advantage, difference, critic)

    def _finding(self, ctx: Context, advantage: ast.expr, difference: ast.BinOp, critic: ast.expr) -> Finding:
        """Put the fault where the values are subtracted, unless the critic's term needs their graph there."""
        what = advantage.id if isinstance(advantage, ast.Name) else ctx.source_of(advantage)
        is_shared = isinstance(advantage, ast.Name) and _fits(critic, advantage.id, "")
        place, cut = (advantage, advantage) if is_shared else (difference, difference.right)
        return ctx.finding(
            self,
            place,
            f"`{what}` still carries the critic's graph; the policy loss trains the critic through it",
            related=[("the values are fitted here", critic)],
            fixes=[ctx.fix("Detach the values", ctx.replace(cut, f"{as_operand(ctx, cut)}.detach()"))],
        )


def _advantage(product: ast.BinOp) -> ast.expr | None:
    """Return what a log-probability is multiplied by: a name, or a difference."""
    if not isinstance(product.op, ast.Mult):
        return None
    for factor, other in ((product.left, product.right), (product.right, product.left)):
        if _is_log_probability(factor):
            bare = _bare(other)
            return bare if isinstance(bare, ast.Name) or _is_difference(bare) else None
    return None


def _is_difference(node: ast.expr) -> TypeGuard[ast.BinOp]:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)


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


def _difference(function: FunctionNode, product: ast.BinOp, advantage: ast.expr, ctx: Context) -> ast.BinOp | None:
    """Return the difference that an advantage was computed as, if nothing cut its graph."""
    if _is_difference(advantage):
        return None if isinstance(advantage.right, ast.Constant) else advantage
    assert isinstance(advantage, ast.Name)
    bound = [s for s in nodes_within(function) if isinstance(s, ast.Assign) and _binds(s, advantage.id)]
    bound = [s for s in bound if s.lineno < product.lineno]
    differences = [s.value for s in bound if _is_difference(s.value) and not isinstance(s.value.right, ast.Constant)]
    return differences[0] if differences and not any(_is_cut(s, ctx) for s in bound) else None


def _critic_loss(function: FunctionNode, advantage: ast.expr, difference: ast.BinOp) -> ast.expr | None:
    """Return the term that fits the values that are subtracted, with their graph."""
    name = advantage.id if isinstance(advantage, ast.Name) else ""
    values = ast.unparse(_bare(difference.right))
    terms = (n for n in nodes_within(function) if isinstance(n, ast.expr) and _fits(n, name, values))
    return next(terms, None)


def _binds(statement: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in statement.targets)


def _is_cut(statement: ast.Assign, ctx: Context) -> bool:
    """Say whether what a statement binds has no graph, or may have none."""
    called = (n.func.attr for n in ast.walk(statement) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute))
    value = ctx.value(statement.value)
    constant = isinstance(value, Tensor) and value.requires_grad is False
    return constant or ctx.grad_enabled(statement) is False or not _CUTS.isdisjoint(called)


def _fits(node: ast.expr, advantage: str, values: str) -> bool:
    """Say whether an expression squares the advantage, or a difference to the values, or is a loss of the values."""
    match node:
        case ast.BinOp(left=inner, op=ast.Pow()):
            return _is_error(inner, advantage, values)
        case ast.Call(func=ast.Attribute(value=inner, attr="pow" | "square" | "abs")) if _is_error(
            inner, advantage, values
        ):
            return True
        case ast.Call(func=ast.Attribute(attr="pow" | "square" | "abs"), args=[inner, *_]):
            return _is_error(inner, advantage, values)
        case ast.Call(func=ast.Attribute(attr=function) | ast.Name(id=function), args=[first, second, *_]):
            given = [ast.unparse(_bare(argument)) for argument in (first, second)]
            return _LOSSES.search(function) is not None and values in given
        case _:
            return False


def _is_error(node: ast.expr, advantage: str, values: str) -> bool:
    if isinstance(node, ast.Name):
        return node.id == advantage
    return _is_difference(node) and values in (ast.unparse(_bare(node.left)), ast.unparse(_bare(node.right)))


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
    """Return the names that a term of the loss is assigned to, or appended to."""
    names: set[str] = set()
    for node in nodes_within(function):
        match node:
            case ast.Assign(targets=targets, value=value) if term in ast.walk(value):
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[value]):
                names |= {name} if term in ast.walk(value) else set()
            case _:
                pass
    return names
