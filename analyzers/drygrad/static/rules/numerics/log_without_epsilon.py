"""Rule DG404: the logarithm of what may be zero."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import as_operand, written_as
from drygrad.static.facts.values import Constant, Origin, Tensor
from drygrad.static.rules.numerics.guards import is_guarded, is_only_ranked, records_gradient, stands_within
from drygrad.static.rules.numerics.log_of_softmax import softmax_behind
from drygrad.static.rules.numerics.rewriting import epsilon, is_counted, plus, stays
from drygrad.static.rules.numerics.singular import LOGARITHMS, Singular, is_of_arrays, logarithm_at
from drygrad.static.syntax import assigned_in, parameter_names
from drygrad.static.tree import walk

_DRAWN = ("rand", "rand_like")
_PLAIN = ("log", "log2", "log10")


class LogWithoutEpsilon(Rule):
    """
    ## What it does
    Finds logarithms of a `sigmoid` (or of `1 - sigmoid`), of `1 - tanh(x)**2`, of `torch.rand` samples, of `x / (1 -
    x)`, and, in what a model or a loss computes, of other values that may be exactly zero: a norm, a variance, a count,
    the output of `relu`. The singular points of `log1p`, `logit` and `atanh` are found as well.

    ## Why is this bad?
    `log(0)` is -inf, and its gradient infinite or NaN; torch raises nothing. A sigmoid rounds to 0 below a logit of
    about -89 in float32 (-17 in float16), and to 1 above only 17 (8 in float16): one confident mistake makes the loss
    infinite. `logsigmoid` is exact there.

    `tanh` rounds to 1 above about 9. For the log-probability of a squashed action, `2 * (math.log(2) - x -
    F.softplus(-2 * x))` is the same correction term without that error. `torch.rand` samples from [0, 1) and returns 0
    about once in 17 million numbers (2**24), which a training run draws within a few steps.

    ## Example
    ```python
    loss = -torch.log(torch.sigmoid(score)).mean()
    ```
    Use instead:
    ```python
    loss = -F.logsigmoid(score).mean()
    ```

    ## Fix safety
    Safe for a sigmoid that is an argument of the logarithm: equal up to rounding wherever the logarithm was exact.
    Unsafe otherwise: adding a small number changes the result slightly.
    """

    code, name, since = "DG404", "log-without-epsilon", "0.1"
    severity = "info"
    calls = frozenset(LOGARITHMS)
    VALID = [
        Valid("def loss(x):\n    return F.logsigmoid(x), torch.log(torch.sigmoid(x) + 1e-8)"),
        Valid("def loss(x, eps):\n    return torch.log(F.relu(x) + eps), x.exp().log(), F.softplus(x).log()"),
        Valid("def loss(x):\n    return torch.sigmoid(x).clamp(1e-6, 1 - 1e-6).log(), x.log()"),
        Valid("def loss(x: torch.Tensor):\n    n = x.norm()\n    return n.log() if n > 0 else n"),
        Valid("def loss(x, eps):\n    return F.relu(x).clamp(min=eps).log(), (x.square().sum() + eps).sqrt().log()"),
        Valid("def report(x: torch.Tensor):\n    return x.var().log()"),
        Valid("def logit(x, alpha):\n    y = alpha + (1 - alpha) * x\n    return torch.log(y / (1 - y))"),
        Valid("def noise(x):\n    u = torch.rand_like(x).clamp(min=1e-20)\n    return -torch.log(-torch.log(u))"),
        Valid("def draw(w, k):\n    keys = torch.rand(w.shape).log() / w\n    return keys.topk(k, dim=-1).indices"),
        Valid("def draw(w, k):\n    return (torch.rand_like(w).log() / w).argmax(), torch.rand(9).log().sort()[1]"),
        Valid("def noise(shape):\n    return -(1 - torch.rand(shape)).log(), torch.empty(shape).exponential_().log()"),
        Valid("def logit(x, eps=1e-5):\n    x = x.clamp(eps, 1 - eps)\n    return torch.log(x / (1 - x))"),
        Valid("def correction(x):\n    return (1 - torch.tanh(x).pow(2) + 1e-6).log(), torch.tanh(x).square().log1p()"),
        Valid("def loss(x: torch.Tensor):\n    with torch.no_grad():\n        return x.norm().log()"),
    ]
    INVALID = [
        Invalid(
            "def f(x):\n    return -torch.log(torch.sigmoid(x)).mean()",
            "def f(x):\n    return -F.logsigmoid(x).mean()",
            at=(2, 12, 2, 39),
            severity="warning",
        ),
        Invalid(
            "class Critic(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.net = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())\n\n"
            "    def forward(self, x):\n        return self.net(x)\n\n"
            "critic = Critic()\n\ndef generator_loss(fake):\n    return torch.log(1 - critic(fake)).mean()",
            "class Critic(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.net = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())\n\n"
            "    def forward(self, x):\n        return self.net(x)\n\n"
            "critic = Critic()\n\ndef generator_loss(fake):\n    return torch.log(1 - critic(fake) + 1e-8).mean()",
            at=(12, 11, 12, 38),
            severity="warning",
        ),
        Invalid(
            "def bce(x, y):\n    p = x.sigmoid()\n    return -(y * p.log() + (1 - y) * (1 - p).log()).mean()",
            "def bce(x, y):\n    p = x.sigmoid()\n    return -(y * F.logsigmoid(x) + (1 - y) * (1 - p).log()).mean()",
            count=2,
            severity="warning",
        ),
        Invalid(
            "def contrast_loss(x: torch.Tensor):\n"
            "    return torch.log((1 - x.sigmoid())).sum() + torch.log(1 - torch.sigmoid(x)).sum()",
            "def contrast_loss(x: torch.Tensor):\n"
            "    return F.logsigmoid(-x).sum() + torch.log(1 - torch.sigmoid(x)).sum()",
            count=2,
            severity="warning",
        ),
        Invalid(
            "def inverse_sigmoid(x):\n    return torch.log(x / (1 - x))",
            "def inverse_sigmoid(x):\n    return torch.logit(x, eps=1e-6)",
            at=(2, 11, 2, 33),
        ),
        Invalid(
            "def gumbel(logits):\n    u = torch.rand_like(logits)\n    return logits - torch.log(-torch.log(u))",
            "def gumbel(logits):\n    u = torch.rand_like(logits)\n    return logits - torch.log(-torch.log(u + 1e-8))",
            at=(3, 31, 3, 43),
            severity="info",
        ),
        Invalid(
            "def log_prob(dist, raw):\n    a = torch.tanh(raw)\n"
            "    return dist.log_prob(raw) - torch.log(1 - a.pow(2)).sum(-1)",
            "def log_prob(dist, raw):\n    a = torch.tanh(raw)\n"
            "    return dist.log_prob(raw) - torch.log(1 - a.pow(2) + 1e-8).sum(-1)",
            at=(3, 32, 3, 55),
            severity="warning",
        ),
        Invalid(
            "import math\n\ndef log_prob(dist, raw):\n    a = torch.tanh(raw)\n"
            "    return dist.log_prob(raw) - torch.log(1 - a ** 2).sum(-1)",
            "import math\n\ndef log_prob(dist, raw):\n    a = torch.tanh(raw)\n"
            "    return dist.log_prob(raw) - (2 * (math.log(2) - raw - F.softplus(-2 * raw))).sum(-1)",
            severity="warning",
        ),
        Invalid(
            "def gate_loss(x: torch.Tensor):\n    gate = torch.sigmoid(x)\n    x = x * 2\n"
            "    return torch.log(gate).mean() + x.mean()",
            "def gate_loss(x: torch.Tensor):\n    gate = torch.sigmoid(x)\n    x = x * 2\n"
            "    return torch.log(gate + 1e-8).mean() + x.mean()",
            severity="warning",
        ),
        Invalid(
            "def spread_loss(x: torch.Tensor):\n    return -x.var(dim=0).log().mean()",
            "def spread_loss(x: torch.Tensor):\n    return -(x.var(dim=0) + 1e-8).log().mean()",
            at=(2, 12, 2, 30),
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        given = call.operand("input") if call else None
        if given is not None and call is not None and call.operation == "log":
            yield from self._of_odds(node, given, ctx)
        singular = logarithm_at(node, ctx)
        if call is None or given is None or singular is None or singular.origin is None:
            return
        tensor = singular.tensor or Tensor(origin=singular.origin, range=singular.range)
        if is_guarded(node, given, ctx) or not is_of_arrays(singular, ctx):
            return
        if call.operation in _PLAIN and softmax_behind(tensor) is not None:
            return
        found = _sigmoid(tensor) if call.operation in _PLAIN else None
        if found is not None:
            yield self._of_sigmoid(node, given, found, singular, ctx)
        elif tensor.made_by(*_DRAWN):
            if is_only_ranked(node, ctx):
                return
            yield self._of_drawn(singular, singular.origin, ctx)
        elif (squashed := _correction(tensor)) is not None:
            yield self._of_tanh(singular, squashed, ctx)
        elif records_gradient(node, ctx, singular.tensor) != "no" or tensor.made_by("arange", "linspace"):
            yield self._of_other(singular, ctx)

    def _of_other(self, found: Singular, ctx: Context) -> Finding:
        what = "logarithm" if found.operation.startswith("log") and found.operation != "logit" else found.operation
        return ctx.finding(
            self,
            found.node,
            f"`{ctx.source_of(found.argument)}` {'is' if found.always else 'may be exactly'} {found.point:g}; the "
            f"{what} and its gradient would be infinite",
            fixes=[self._fix(found, ctx)],
        )

    def _of_sigmoid(
        self, node: ast.Call, given: ast.expr, found: tuple[str, Origin], singular: Singular, ctx: Context
    ) -> Finding:
        sign, origin = found
        where, better = ("1", "logsigmoid(-x)") if sign else ("0", "logsigmoid(x)")
        return ctx.finding(
            self,
            node,
            f"sigmoid may round to {where}, which makes the log -inf and its gradient NaN; {better} computes it in "
            "one step",
            severity="warning",
            related=[] if origin.node in walk(given) else [("the sigmoid is applied here", origin.node)],
            fixes=[self._logsigmoid(node, given, found, ctx) or self._fix(singular, ctx)],
        )

    def _of_odds(self, node: ast.Call, given: ast.expr, ctx: Context) -> Iterator[Finding]:
        """``log(p / (1 - p))`` of a p as the caller gives it, which may be 0 or 1."""
        match given:
            case ast.BinOp(
                left=odds, op=ast.Div(), right=ast.BinOp(left=ast.Constant(value=1), op=ast.Sub(), right=other)
            ) if ast.dump(odds) == ast.dump(other):
                tensor = ctx.tensor(odds)
            case _:
                return
        function = ctx.function(node)
        if not isinstance(odds, ast.Name) or function is None or odds.id not in parameter_names(function):
            return
        if any(name == odds.id for name, _ in assigned_in(function)) or is_guarded(node, odds, ctx):
            return
        if tensor is not None and (tensor.made_by("clamp", "clamp_min", "clamp_max", "sigmoid", "softmax", "add")):
            return
        torch = written_as(ctx, "torch.logit")
        text = ctx.source_of(odds)
        edit = ctx.replace(node, f"{torch}({text}, eps=1e-6)") if torch is not None else None
        yield ctx.finding(
            self,
            node,
            f"this is -inf where `{text}` is 0 and divides by 0 where it is 1; torch.logit with an eps avoids both",
            fixes=[ctx.fix("Use `torch.logit`", edit) if edit is not None else None],
        )

    def _of_drawn(self, found: Singular, origin: Origin, ctx: Context) -> Finding:
        given = found.argument
        is_gumbel = stands_within(found.node, "log", ctx)  # noise of -inf is a choice that is not made
        return ctx.finding(
            self,
            found.node,
            f"`{ctx.source_of(given)}` is drawn from [0, 1); a 0 comes up once in 17 million numbers and gives -inf",
            severity="info" if is_gumbel else "warning",
            related=[] if origin.node in walk(given) else [("the numbers are drawn here", origin.node)],
            fixes=[self._fix(found, ctx)],
        )

    def _of_tanh(self, found: Singular, origin: Origin, ctx: Context) -> Finding:
        given = found.argument
        return ctx.finding(
            self,
            found.node,
            "tanh rounds to 1 above about 9, which makes this log -inf; 2 * (math.log(2) - x - F.softplus(-2 * x)) "
            "is the same and exact",
            severity="warning",
            related=[] if origin.node in walk(given) else [("the tanh is applied here", origin.node)],
            fixes=[self._softplus(found, origin, ctx) or self._fix(found, ctx)],
        )

    def _logsigmoid(self, node: ast.Call, given: ast.expr, found: tuple[str, Origin], ctx: Context) -> Fix | None:
        sign, origin = found
        call = origin.call
        inline = given.right if sign and isinstance(given, ast.BinOp) else given
        if call is None or "#" in ctx.source_of(node) or not call.operands:
            return None
        logits = call.operands[0]
        in_place = inline is origin.node
        if not in_place and not _is_named(inline, logits, origin, node, ctx):
            return None
        argument = f"-{as_operand(ctx, logits)}" if sign else ctx.source_of(logits)
        functional = written_as(ctx, "torch.nn.functional")
        if functional is None or is_counted(ctx.tensor(logits)):
            return None
        edit = ctx.replace(node, f"{functional}.logsigmoid({argument})")
        return ctx.fix("Use `logsigmoid`", edit, safety="safe" if in_place else "unsafe")

    def _softplus(self, found: Singular, origin: Origin, ctx: Context) -> Fix | None:
        """Write the correction of a squashed sample in its exact form."""
        call, functional = origin.call, written_as(ctx, "torch.nn.functional")
        log = written_as(ctx, "math.log") or written_as(ctx, "numpy.log")
        if functional is None or log is None or found.operation != "log" or call is None or not call.operands:
            return None
        raw = call.operands[0]
        squared = _squared(found.argument)
        if squared is None or not (squared is origin.node or _is_named(squared, raw, origin, found.node, ctx)):
            return None
        x = as_operand(ctx, raw)
        text = f"2 * ({log}(2) - {x} - {functional}.softplus(-2 * {x}))"
        alone = isinstance(ctx.parent(found.node), (ast.Assign, ast.Return))
        return ctx.fix("Use `softplus`", ctx.replace(found.node, text if alone else f"({text})"))

    def _fix(self, found: Singular, ctx: Context) -> Fix | None:
        if found.point == 1:
            return None
        edits = plus(found.argument, epsilon(found.tensor), ctx, is_argument=found.is_argument)
        return ctx.fix("Add a small epsilon", *edits)


_ARITHMETIC = (ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.expr_context)


def _is_named(node: ast.expr, given: ast.expr, origin: Origin, until: ast.expr | ast.stmt, ctx: Context) -> bool:
    """Say whether a name stands for a result of operands that still are what they were."""
    if not isinstance(node, ast.Name) or any(not isinstance(inner, _ARITHMETIC) for inner in ast.walk(given)):
        return False
    return stays(given, origin.node, until, ctx)


def _squared(node: ast.expr) -> ast.expr | None:
    """Return the ``t`` of ``1 - t ** 2``."""
    match node:
        case ast.BinOp(left=ast.Constant(value=1), op=ast.Sub(), right=squared):
            pass
        case _:
            return None
    match squared:
        case ast.BinOp(left=base, op=ast.Pow(), right=ast.Constant(value=2)):
            return base
        case ast.Call(func=ast.Attribute(value=base, attr="pow"), args=[ast.Constant(value=2)], keywords=[]):
            return base
        case ast.Call(func=ast.Attribute(value=base, attr="square"), args=[], keywords=[]):
            return base
        case _:
            return None


def _correction(tensor: Tensor) -> Origin | None:
    """Return the tanh of ``1 - tanh(x) ** 2``."""
    origin = tensor.origin
    if origin is None or origin.operation != "sub" or len(origin.operands) < 2 or origin.operands[0] != Constant(1):
        return None
    squared = origin.operands[1]
    made = squared.origin if isinstance(squared, Tensor) and squared.made_by("square", "pow", "mul") else None
    base = made.operands[0] if made is not None and made.operands else None
    return base.origin if isinstance(base, Tensor) and base.made_by("tanh") else None


def _sigmoid(tensor: Tensor) -> tuple[str, Origin] | None:
    """Return the sigmoid that a tensor is, with "-" where it is ``1 - sigmoid``."""
    origin = tensor.origin
    if origin is None:
        return None
    if origin.operation == "sigmoid":
        return "", origin
    if origin.operation == "sub" and len(origin.operands) == 2 and origin.operands[0] == Constant(1):
        inner = origin.operands[1]
        if isinstance(inner, Tensor) and inner.origin is not None and inner.made_by("sigmoid"):
            return "-", inner.origin
    return None
