"""Rule DG406: where hides a NaN, not its gradient."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Severity, Valid
from drygrad.static.context import Context
from drygrad.static.facts.quantities import as_tensor
from drygrad.static.facts.values import UNKNOWN, Constant, Quantity, Tensor, TorchCall, Value
from drygrad.static.rules.numerics.guards import ends_gradient, is_called_in_training, names_in, records_gradient
from drygrad.static.tree import walk

_SINGULAR = frozenset("log log2 log10 log1p sqrt rsqrt reciprocal acos asin atanh erfinv div pow".split())
_GROWING = frozenset({"exp", "expm1", "cosh", "sinh"})
_LARGE = 10.0
"""Who compares with such a number, or a larger one, expects values at which an exponential overflows."""
_SAFE_AT_ZERO = frozenset({"acos", "asin", "atanh", "erfinv"}) | _GROWING


class WhereMasksNan(Rule):
    """
    ## What it does
    Finds `torch.where(condition, f(x), safe)` (also `masked_fill` and `nan_to_num` on `f(x)`), where `f` has a singular
    point (a logarithm, a root, a quotient ...) or overflows, and the condition selects the values of `x` that `f` can
    handle.

    ## Why is this bad?
    The forward result is right, the gradient is not: backward multiplies the 0 that `where` passes to the branch not
    taken by the infinite derivative of `f`, and 0 times infinity is NaN. Replace the bad inputs *before* `f`; the
    result can still be masked as before.

    ## Example
    ```python
    def loss(x: torch.Tensor):
        return torch.where(x > 0, torch.log(x), 0.0).sum()
    ```
    Use instead:
    ```python
    def loss(x: torch.Tensor):
        return torch.where(x > 0, torch.log(torch.where(x > 0, x, 1.0)), 0.0).sum()
    ```

    ## Fix safety
    Safe: values and finite gradients stay the same.
    """

    code, name, since = "DG406", "where-masks-nan", "0.1"
    severity = "info"
    calls = frozenset({"where", "masked_fill", "nan_to_num"})
    VALID = [
        Valid(
            """
            class Mask(nn.Module):
                def stability(self, logits):
                    inner = torch.sum(logits > 1, dim=-1).float()
                    union = torch.sum(logits > -1, dim=-1).float()
                    return torch.where(union > 0, inner / union, 1.0)
            """
        ),
        Valid("def f(x: torch.Tensor):\n    return torch.where(x > 0, torch.log(torch.where(x > 0, x, 1.0)), 0.0)"),
        Valid("def f(x: torch.Tensor):\n    return torch.where(x > 0, x.clamp(min=1e-6).log(), 0.0)"),
        Valid("@torch.no_grad()\ndef loss(x: torch.Tensor):\n    return torch.where(x > 0, x.log(), 0.0)"),
        Valid(
            "def loss(x: torch.Tensor):\n    return torch.where(x > 0, x.exp(), 0.0), torch.where(x > 0, x / 2, 0.0)"
        ),
        Valid(
            "import math\n\nimport torch\n\ndef attention_loss(q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor):\n"
            "    scores = q @ k.mT / math.sqrt(64)\n    return scores.masked_fill(mask == 0, float('-inf'))"
        ),
        Valid("def loss(x: torch.Tensor, y: torch.Tensor):\n    return torch.where(y > 0, x.log(), 0.0)"),
        Valid("def loss(x: torch.Tensor):\n    y = x.detach()\n    return torch.where(y > 0, y.log(), 0.0)"),
        Valid("def loss(x: torch.Tensor):\n    return torch.where(x < 1, x.log(), 0.0).sum()"),
        Valid("def loss(x: torch.Tensor):\n    return torch.where(x > 2, x.square(), 1 / x).sum()"),
        Valid("def report(x: torch.Tensor):\n    return torch.where(x > 0, x.log(), 0.0)"),
        Valid(
            """
            def density(x):
                return torch.log(x) / x

            def profile_loss(x: torch.Tensor, y: torch.Tensor):
                inner = torch.where(x > 0, x, 1.0)
                return torch.where(x > 0, density(inner), 0.0) + torch.where(y > 0, density(x), 0.0)
            """
        ),
        Valid("def feature_loss(x: torch.Tensor):\n    return torch.where(x > 0, x + 1, x.exp())"),
    ]
    INVALID = [
        Invalid(
            """
            def outer(x):
                root = torch.sqrt(x ** 2 - 1)
                return torch.atan(x) / root

            def profile_loss(x: torch.Tensor):
                return torch.where(x > 1, 1 - outer(x), 0.0).mean()
            """,
            at=(6, 11, 6, 48),
        ),
        Invalid(
            """
            def ratio_loss(x: torch.Tensor, y: torch.Tensor):
                ratio = torch.log(x) - y
                return torch.where(x > 0, ratio, torch.zeros_like(ratio)).mean()
            """,
            at=(2, 12, 2, 24),
            severity="info",
        ),
        Invalid(
            "x = torch.rand(4, requires_grad=True)\ny = torch.where(x > 0, torch.log(x), 0.0)",
            "x = torch.rand(4, requires_grad=True)\ny = torch.where(x > 0, torch.log(torch.where(x > 0, x, 1.0)), 0.0)",
            at=(2, 23, 2, 35),
            severity="warning",
        ),
        Invalid(
            "class Entropy(nn.Module):\n    def forward(self, p: torch.Tensor):\n"
            "        safe = torch.where(p == 0, torch.zeros_like(p), p * p.log())\n"
            "        return -torch.where(p == 0, 0.0, p.log()).sum()",
            "class Entropy(nn.Module):\n    def forward(self, p: torch.Tensor):\n"
            "        safe = torch.where(p == 0, torch.zeros_like(p), p * torch.where(p == 0, 1.0, p).log())\n"
            "        return -torch.where(p == 0, 0.0, p.log()).sum()",
            count=2,
        ),
        Invalid(
            "def ratio_loss(a: torch.Tensor, b: torch.Tensor):\n"
            "    ratio = torch.where(b != 0, a / b, torch.zeros_like(a))\n"
            "    return ratio.mean()",
            "def ratio_loss(a: torch.Tensor, b: torch.Tensor):\n"
            "    ratio = torch.where(b != 0, a / torch.where(b != 0, b, 1.0), torch.zeros_like(a))\n"
            "    return ratio.mean()",
            at=(2, 32, 2, 37),
        ),
        Invalid(
            """
            def entropy(p: torch.Tensor):
                return -torch.where(p > 0, p * p.log(), 0.0).sum(-1)

            def policy_loss(p: torch.Tensor):
                return -entropy(p).mean()
            """,
            """
            def entropy(p: torch.Tensor):
                return -torch.where(p > 0, p * torch.where(p > 0, p, 1.0).log(), 0.0).sum(-1)

            def policy_loss(p: torch.Tensor):
                return -entropy(p).mean()
            """,
            at=(2, 35, 2, 42),
        ),
        Invalid(
            """
            class Rate(nn.Module):
                def forward(self, x: torch.Tensor):
                    return torch.where(x > 20.0, x, torch.log1p(torch.exp(x)))
            """,
            """
            class Rate(nn.Module):
                def forward(self, x: torch.Tensor):
                    return torch.where(x > 20.0, x, torch.log1p(torch.exp(torch.where(x > 20.0, 0.0, x))))
            """,
            at=(3, 52, 3, 64),
        ),
        Invalid("def loss(x: torch.Tensor):\n    return torch.nan_to_num(torch.sqrt(x)).sum()", at=(2, 28, 2, 41)),
        Invalid(
            "def loss(x: torch.Tensor):\n    y = x.log()\n    return y.masked_fill(x <= 0, 0.0).sum()", at=(2, 8, 2, 15)
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        if call is None:
            return
        condition = call.operand("condition" if call.operation == "where" else "mask")
        branches = ("input", "other") if call.operation == "where" else ("input",)
        for name in branches:
            branch = call.operand(name)
            for tensor in _factors(ctx.quantity(branch)):
                argument = _singular_argument(tensor, ctx) or _overflowing_argument(tensor, condition, ctx)
                if argument is None or _keeps_singular(call, name, tensor, argument, condition, ctx):
                    continue
                if call.operation == "nan_to_num" or _is_about(condition, tensor, argument, ctx):
                    yield from self._report(node, call, tensor, argument, name, ctx)
                    break

    def _report(
        self, node: ast.Call, call: TorchCall, tensor: Tensor, argument: ast.expr, branch: str, ctx: Context
    ) -> Iterator[Finding]:
        recorded = records_gradient(node, ctx, tensor)
        if tensor.origin is None or (recorded == "no" and not _is_recorded_elsewhere(node, tensor, ctx)):
            return
        severity: Severity = "warning" if recorded == "yes" else "info"
        operation = "the division" if tensor.origin.operation == "div" else tensor.origin.operation
        is_apart = ctx.function(tensor.origin.node) is not ctx.function(node)  # what it is given has to change
        yield ctx.finding(
            self,
            node if is_apart else tensor.origin.node,
            f"{call.operation} replaces the value of {operation}, not its gradient; where "
            f"`{ctx.source_of(argument)}` is singular, 0 * inf makes the gradient NaN",
            severity=severity,
            related=[("it is computed here", tensor.origin.node)]
            if is_apart
            else [(f"{call.operation} replaces the result here", node)],
            fixes=[self._fix(call, tensor, argument, branch, ctx)],
        )

    def _fix(self, call: TorchCall, tensor: Tensor, argument: ast.expr, branch: str, ctx: Context) -> Fix | None:
        """Choose once more, inside: the argument where the result is used, a harmless number elsewhere."""
        condition, origin = call.operand("condition"), tensor.origin
        if call.operation != "where" or call.form != "function" or condition is None or origin is None:
            return None
        written = call.operand(branch)
        if written is None or not any(node is origin.node for node in walk(written)):
            return None
        harmless = "0.0" if origin.operation in _SAFE_AT_ZERO else "1.0"
        chosen = ctx.source_of(argument)
        pair = f"{chosen}, {harmless}" if branch == "input" else f"{harmless}, {chosen}"
        text = f"{ctx.source_of(call.node.func)}({ctx.source_of(condition)}, {pair})"
        return ctx.fix("Mask the input as well", ctx.replace(argument, text), safety="safe")


def _is_recorded_elsewhere(node: ast.Call, tensor: Tensor, ctx: Context) -> bool:
    return tensor.requires_grad is not False and is_called_in_training(node, ctx)


def _factors(value: Value) -> Iterator[Tensor]:
    """Yield a branch and what it is a product, sum or negation of, or the log1p of: 0 goes back through these as 0."""
    tensor = as_tensor(value)
    if isinstance(tensor, Tensor) and tensor.origin is not None:
        yield tensor
        if tensor.made_by("mul", "neg", "log1p", "add", "sub"):
            for operand in tensor.origin.operands:
                yield from _factors(operand)


def _overflowing_argument(tensor: Tensor, condition: ast.expr | None, ctx: Context) -> ast.expr | None:
    """Return the argument of an exp where the condition compares with a number so large that it minds the overflow."""
    if not isinstance(condition, ast.Compare) or tensor.origin is None or tensor.origin.operation not in _GROWING:
        return None
    sides = (condition.left, *condition.comparators)
    numbers = [value.value for value in map(ctx.value, sides) if isinstance(value, Constant)]
    call = tensor.origin.call
    if call is None or not any(isinstance(number, (int, float)) and number >= _LARGE for number in numbers):
        return None
    return next((given for given in call.operands if ast.dump(given) in map(ast.dump, sides)), None)


def _singular_argument(tensor: Tensor, ctx: Context) -> ast.expr | None:
    """Return the argument that may be at the singular point of the function which made a tensor."""
    origin = tensor.origin
    if origin is None or origin.operation not in _SINGULAR:
        return None
    expressions = origin.call.operands if origin.call is not None else _operands(origin.node)
    if origin.operation == "pow" and not _is_singular_power(origin.operands[1:]):
        return None
    index = 1 if origin.operation == "div" else 0
    if len(expressions) <= index:
        return None
    argument = expressions[index]
    value = as_tensor(ctx.quantity(argument)) if ctx.quantity(argument) is not UNKNOWN else None
    if not isinstance(value, Tensor) or value.made_by(*_MADE_HARMLESS):
        return None
    if origin.operation != "div" and ends_gradient(value):  # the gradient of a dividend meets no relu
        return None
    may_vanish = isinstance(argument, ast.Name) and value.made_by("exp")  # exp of -inf is 0
    return None if _is_positive(value) and not may_vanish else argument


def _is_positive(value: Tensor) -> bool:
    return value.range is not None and value.range.positive


_SINGULARITIES = {
    "log1p": (-1.0,), "sqrt": (0.0, -1.0), "rsqrt": (0.0, -1.0), "pow": (0.0, -1.0), "acos": (1.0, -1.0, 2.0),
    "asin": (1.0, -1.0, 2.0), "atanh": (1.0, -1.0, 2.0), "erfinv": (1.0, -1.0, 2.0),
}  # fmt: skip
"""Where an operation has no finite slope; the others have none at 0."""
_COMPARED: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}  # fmt: skip


def _keeps_singular(
    call: TorchCall, branch: str, tensor: Tensor, argument: ast.expr, condition: ast.expr | None, ctx: Context
) -> bool:
    """Say whether the branch is the one that is kept at every singular point: then its gradient meets no zero."""
    origin = tensor.origin
    if origin is None or origin.operation not in _SINGULAR or not isinstance(condition, ast.Compare):
        return False
    bound = ctx.value(condition.comparators[0])
    compare = _COMPARED.get(type(condition.ops[0]))
    if compare is None or len(condition.ops) > 1 or ast.dump(condition.left) != ast.dump(argument):
        return False
    if not isinstance(bound, Constant) or not isinstance(bound.value, (int, float)):
        return False
    chosen = call.operation == "where" and branch == "input"
    points = _SINGULARITIES.get(origin.operation, (0.0,))
    return all(compare(point, bound.value) is chosen for point in points)


_MADE_HARMLESS = frozenset({"where", "clamp", "clamp_min", "maximum", "masked_fill", "add", "softmax"})


def _operands(node: ast.expr) -> tuple[ast.expr, ...]:
    return (node.left, node.right) if isinstance(node, ast.BinOp) else ()


def _is_singular_power(exponents: tuple[object, ...]) -> bool:
    exponent = exponents[0] if exponents else None
    number = exponent.value if isinstance(exponent, Constant) else None
    return isinstance(number, (int, float)) and number < 1 and number != 0


def _is_about(condition: ast.expr | None, tensor: Tensor, argument: ast.expr, ctx: Context) -> bool:
    """Say whether the condition is about the argument: it names it, or the argument is computed from what it names."""
    if condition is None:
        return False
    if ctx.function(argument) is ctx.function(condition):
        return not set(names_in(condition, ctx)).isdisjoint(names_in(argument, ctx))
    index = 1 if tensor.origin is not None and tensor.origin.operation == "div" else 0
    operands = tensor.origin.operands if tensor.origin is not None else ()
    tested = [ctx.quantity(n) for n in walk(condition) if isinstance(n, ast.Name)]
    return len(operands) > index and any(_comes_from(operands[index], value) for value in tested)


def _comes_from(value: Value, source: Value, depth: int = 12) -> bool:
    """Say whether a value was computed from another one, and nothing replaced its elements on the way."""
    if not depth or not isinstance(value, (Tensor, Quantity)) or not isinstance(source, (Tensor, Quantity)):
        return False
    if _identity(value) == _identity(source) is not None:
        return True
    if value.origin is None or value.origin.operation in _REPLACING:
        return False
    return any(_comes_from(operand, source, depth - 1) for operand in value.origin.operands)


def _identity(value: Tensor | Quantity) -> object:
    """Return what tells a value from others: the operation that made it, or the parameter that it came by."""
    if value.origin is not None:
        return value.origin
    return value.storage if isinstance(value.storage, ast.arg) else None


_REPLACING = frozenset({"where", "clamp", "clamp_min", "clamp_max", "maximum", "minimum", "masked_fill", "nan_to_num"})
