"""Rule DG747: the result of a tensor operation thrown away."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.operations import NO_METHODS
from drygrad.static.facts.values import Tensor, TorchCall
from drygrad.static.syntax import bound_names

_PURE = frozenset(
    "view view_as reshape reshape_as squeeze unsqueeze permute transpose t flatten unflatten movedim contiguous expand "
    "expand_as repeat repeat_interleave narrow flip roll clone detach cat stack clamp clamp_min clamp_max abs exp log "
    "log1p sqrt rsqrt relu leaky_relu gelu silu elu sigmoid tanh softmax log_softmax normalize masked_fill add sub mul "
    "div pow neg square reciprocal round floor ceil sign nan_to_num dropout pad scatter scatter_add index_fill "
    "index_add index_copy index_select gather triu tril bitwise_not logical_not".split()
)
"""Operations that do nothing but return a tensor."""
_PACKAGES = frozenset({"torch", "torch.nn.functional", "torch.special", "torch.Tensor", "Tensor"})
_GRAD_AND_DTYPE = frozenset({"no_grad", "enable_grad", "inference_mode", "set_grad_enabled", "autocast"})
_CELL = "# <drygrad cell "


class ResultDiscarded(Rule):
    """
    ## What it does
    Finds a tensor operation used as a statement, such as `x.squeeze(1)` or `torch.clamp(x, 0)`.

    ## Why is this bad?
    These return a new tensor and leave `x` unchanged. The result is discarded, so the line has no effect: later code
    uses the old values or the old shape.

    ## Example
    ```python
    x = torch.randn(8, 1)
    x.squeeze(1)
    ```
    Use instead:
    ```python
    x = torch.randn(8, 1)
    x = x.squeeze(1)
    ```

    ## Fix safety
    Unsafe: later code gets the new values.
    """

    code, name, since = "DG747", "result-discarded", "0.1"
    VALID = [
        Valid("def f(x):\n    x = x.exp().squeeze(1)\n    x.clamp_(0)\n    torch.clamp(x, min=0, out=x)\n    return x"),
        Valid("def f(x):\n    y = x.exp()\n    y.sum().backward()\n    F.relu(y.detach(), inplace=True)"),
        Valid("def bench(x):\n    for _ in range(100):\n        torch.exp(x)"),
        Valid(
            """
            import pytest
            import torch

            def test_view():
                x = torch.ones(3)
                with pytest.raises(RuntimeError):
                    x.view(2, 2)

            def fits(x: torch.Tensor, shape) -> bool:
                try:
                    x.view(shape)
                except RuntimeError:
                    return False
                return True
            """
        ),
        Valid("def f(frame):\n    frame.squeeze(1)\n    frame.detach()\n    frame.clip(0)"),
        Valid("torch.zeros(1).cuda()\nx = torch.ones(2)\nx.sum()\nx.backward()"),
    ]
    INVALID = [
        Invalid(
            "def f(x):\n    y = torch.exp(x)\n    y.squeeze(1)  # drop it\n    return y",
            "def f(x):\n    y = torch.exp(x)\n    y = y.squeeze(1)  # drop it\n    return y",
            at=(3, 4, 3, 16),
        ),
        Invalid(
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.conv = nn.Conv2d(3, 16, 3)
                    self.fc = nn.Linear(16 * 30 * 30, 10)

                def forward(self, x):
                    x = F.relu(self.conv(x))
                    x.view(x.size(0), -1)
                    return self.fc(x)
            """,
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.conv = nn.Conv2d(3, 16, 3)
                    self.fc = nn.Linear(16 * 30 * 30, 10)

                def forward(self, x):
                    x = F.relu(self.conv(x))
                    x = x.view(x.size(0), -1)
                    return self.fc(x)
            """,
        ),
        Invalid(
            """
            def sample(logits: torch.Tensor, mask):
                torch.clamp(
                    logits, min=-10
                )
                F.softmax(logits, dim=-1)
                return logits
            """,
            """
            def sample(logits: torch.Tensor, mask):
                logits = torch.clamp(
                    logits, min=-10
                )
                F.softmax(logits, dim=-1)
                return logits
            """,
            count=2,
        ),
        Invalid(
            """
            def clip_weights(critic: nn.Linear, logits: torch.Tensor):
                with torch.no_grad():
                    torch.clamp(critic.weight, -0.01, 0.01)
            """,
            at=(3, 8, 3, 47),
        ),
        Invalid(
            """
            def pool(batch):
                hidden = batch["hidden"].float().masked_fill(batch["mask"], 0)
                torch.cat([hidden, hidden])
                return hidden
            """
        ),
    ]

    def visit_expr(self, node: ast.Expr, ctx: Context) -> Iterator[Finding]:
        if not isinstance(node.value, ast.Call):
            return
        call = ctx.call(node.value)
        if call is None or not _only_returns(call) or _is_meant_to_run(node, ctx):
            return
        given = call.operands[0] if call.operands else None
        tensor = ctx.tensor(given)
        named = given.id if isinstance(given, ast.Name) and tensor is not None and not tensor.parameter else None
        subject = f"`{named}` is unchanged" if named else "the result is unused"
        yield ctx.finding(
            self,
            node,
            f"`{call.operation}` returns a new tensor, which is discarded; {subject}",
            fixes=[_fix(node, named, ctx)],
        )


def _only_returns(call: TorchCall) -> bool:
    """Say whether a call surely does nothing but return a tensor."""
    if call.operation not in _PURE or call.form not in ("function", "method") or not call.receiver_known:
        return False
    if call.inplace or call.target.endswith("_") or "inplace" in call.keywords or "out" in call.keywords:
        return False
    if call.target.rpartition(".")[0] not in _PACKAGES or any(k.arg is None for k in call.node.keywords):
        return False
    method = call.target.rpartition(".")[2]
    return call.form == "function" or (isinstance(call.values[0], Tensor) and method not in NO_METHODS)


def _is_meant_to_run(node: ast.Expr, ctx: Context) -> bool:
    """Say whether an operation may be run for its time, its error, or what a notebook shows of it."""
    inside = ctx.function(node) is not None
    if not inside and ctx.mentions(_CELL):
        return True
    if any(isinstance(a, ast.Try) or (isinstance(a, ast.With) and _watches(a)) for a in ctx.ancestors(node)):
        return True
    return any(not _uses_target(node, loop) for loop in ctx.loops(node))


def _watches(node: ast.With) -> bool:
    """Say whether a ``with`` may be about the very run of its body: a timer, a profiler, ``pytest.raises``."""
    managers = [item.context_expr for item in node.items]
    names = [ast.unparse(m.func if isinstance(m, ast.Call) else m).rpartition(".")[2] for m in managers]
    return not _GRAD_AND_DTYPE.issuperset(names)


def _uses_target(node: ast.Expr, loop: ast.For | ast.AsyncFor | ast.While) -> bool:
    """Say whether a statement is about what its loop goes through, and not just repeated."""
    if isinstance(loop, ast.While):
        return False
    targets = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
    used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return bool((targets | bound_names(loop)) & used - {"_"})


def _fix(node: ast.Expr, name: str | None, ctx: Context) -> Fix | None:
    return ctx.fix(f"Assign the result to `{name}`", ctx.insert_before(node, f"{name} = ")) if name else None
