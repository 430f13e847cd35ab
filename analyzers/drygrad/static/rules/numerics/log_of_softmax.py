"""Rule DG403: the logarithm of a softmax."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Edit, Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import as_operand
from drygrad.static.facts.values import Origin, Tensor, TorchCall
from drygrad.static.rules.numerics.guards import stands_within
from drygrad.static.rules.numerics.rewriting import stays

_CHOOSING = frozenset(
    {"getitem", "gather", "select", "squeeze", "unsqueeze", "view", "reshape", "transpose", "permute"}
)
"""Operations that only pick and order probabilities."""
_AND_GRADIENT = ", and its gradient NaN"


class LogOfSoftmax(Rule):
    """
    ## What it does
    Finds `log` applied to the result of `softmax`.

    ## Why is this bad?
    `softmax` rounds small probabilities to 0: in float32 if the logit is more than about 104 below the largest one, in
    float16 from 17. The logarithm is then -inf, the loss infinite and the gradient NaN. `log_softmax` never computes
    the probability, so it stays exact there.

    ## Example
    ```python
    loss = -torch.log(F.softmax(logits, dim=1))[range(len(y)), y].mean()
    ```
    Use instead:
    ```python
    loss = -F.log_softmax(logits, dim=1)[range(len(y)), y].mean()
    ```

    ## Fix safety
    Safe if the softmax is an argument of the logarithm: the results are equal up to rounding wherever the logarithm was
    finite. Unsafe if the softmax was assigned to a name earlier, which may have been modified in place since.
    """

    code, name, since = "DG403", "log-of-softmax", "0.1"
    severity = "warning"
    calls = frozenset({"log"})
    VALID = [
        Valid("def f(x):\n    return F.log_softmax(x, dim=1)"),
        Valid("def f(x):\n    return torch.log(F.softmax(x, dim=1) + 1e-8), F.softmax(x, 1).clamp(min=1e-8).log()"),
        Valid("def f(x):\n    p = F.softmax(x, dim=1)\n    return p, x.exp().log()"),
        Valid("def f(x, y):\n    p = F.softmax(x, dim=1)\n    p = 0.9 * p + 0.1 * y.exp()\n    return torch.log(p)"),
        Valid("def f(x):\n    p = x.softmax(1)\n    return torch.where(p > 0, p * p.log(), torch.zeros_like(p)).sum()"),
        Valid(
            "import math\n\nimport torch\n\ndef f(x):\n    p = torch.softmax(x, 0)\n"
            "    return math.log(p[0].item() + 1)"
        ),
    ]
    INVALID = [
        Invalid(
            "@torch.no_grad()\ndef score(x):\n    return x.softmax(-1).log()",
            "@torch.no_grad()\ndef score(x):\n    return x.log_softmax(-1)",
            severity="info",
        ),
        Invalid(
            "def f(x):\n    return torch.log(F.softmax(x, dim=1))",
            "def f(x):\n    return F.log_softmax(x, dim=1)",
            at=(2, 11, 2, 41),
        ),
        Invalid(
            "def f(x):\n    return torch.log(\n        x.softmax(\n            -1,  # over the classes\n        )\n"
            "    ) * 2",
            "def f(x):\n    return x.log_softmax(\n            -1,  # over the classes\n        ) * 2",
        ),
        Invalid(
            "def f(x, y):\n    p = torch.softmax(x / 2, dim=-1)\n    loss = -p.log().gather(1, y).mean()\n"
            "    return loss, p",
            "def f(x, y):\n    p = torch.softmax(x / 2, dim=-1)\n"
            "    loss = -(x / 2).log_softmax(dim=-1).gather(1, y).mean()\n"
            "    return loss, p",
            at=(3, 12, 3, 19),
        ),
        Invalid(
            "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.fc = nn.Linear(8, 3)\n        self.softmax = nn.Softmax(dim=1)\n\n"
            "    def forward(self, x, y):\n        probabilities = self.softmax(self.fc(x))\n"
            "        return -torch.log(probabilities[range(len(y)), y]).mean()",
            at=(9, 16, 9, 58),
        ),
        Invalid(
            "from torch.nn.functional import softmax\nimport torch\n\ndef entropy(x):\n    p = softmax(x, 1)\n"
            "    return -(p * torch.log(p)).sum(1)",
            "from torch.nn.functional import softmax\nimport torch\n\ndef entropy(x):\n    p = softmax(x, 1)\n"
            "    return -(p * x.log_softmax(1)).sum(1)",
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        given = call.operand("input") if call else None
        tensor = ctx.tensor(given)
        if call is None or call.inplace or given is None or tensor is None:
            return
        origin = softmax_behind(tensor)
        if origin is None or stands_within(node, "where", ctx):
            return
        recorded = ctx.grad_enabled(ctx.statement(node)) is not False
        yield ctx.finding(
            self,
            node,
            f"softmax may round to 0, where its log is -inf{_AND_GRADIENT if recorded else ''}; log_softmax computes "
            "both in one step",
            severity=None if recorded else "info",
            related=[] if origin.node is given else [("softmax is applied here", origin.node)],
            fixes=[self._fix(node, given, origin, ctx)] if tensor.origin == origin else [],
        )

    def _fix(self, node: ast.Call, given: ast.expr, origin: Origin, ctx: Context) -> Fix | None:
        call = origin.call
        if call is None:
            return None
        if origin.node is given:
            edit = self._renamed(node, call, ctx)
            return ctx.fix("Use `log_softmax`", edit, safety="safe")
        text = _log_softmax(call, ctx)
        if text is None or not stays(call.operands[0], origin.node, node, ctx):
            return None
        return ctx.fix("Use `log_softmax`", ctx.replace(node, text))

    def _renamed(self, node: ast.Call, call: TorchCall, ctx: Context) -> Edit | None:
        """Take the softmax's own text, so that its comments and its line breaks stay."""
        function, whole = call.node.func, ctx.source_of(node)
        inner = ctx.source_of(call.node)
        if "#" in whole.replace(inner, "", 1):
            return None
        if call.form == "module" or not isinstance(function, ast.Attribute) or function.attr != "softmax":
            text = _log_softmax(call, ctx)
        else:
            called = ctx.source_of(function)
            text = called.removesuffix("softmax") + "log_softmax" + inner.removeprefix(called)
        return None if text is None else ctx.replace(node, text)


def softmax_behind(tensor: Tensor) -> Origin | None:
    """Return the softmax whose probabilities a tensor holds, all or some of them."""
    origin = tensor.origin
    if origin is None or origin.operation == "softmax":
        return origin
    if origin.operation not in _CHOOSING:
        return None
    chosen_from = next(iter(origin.operands), None)
    return softmax_behind(chosen_from) if isinstance(chosen_from, Tensor) else None


def _log_softmax(call: TorchCall, ctx: Context) -> str | None:
    """Return the call in the method form; None where its arguments cannot be written there."""
    if len(call.operands) not in (1, 2) or set(call.keywords) - {"dim", "dtype"}:
        return None
    logits, *others = call.operands
    arguments = [ctx.source_of(other) for other in others]
    arguments += [f"{name}={ctx.source_of(value)}" for name, value in call.keywords.items()]
    if call.form == "module":
        dim = call.constant("dim", None)
        arguments = [f"dim={dim}"] if isinstance(dim, int) else []
    return f"{as_operand(ctx, logits)}.log_softmax({', '.join(arguments)})" if arguments else None
