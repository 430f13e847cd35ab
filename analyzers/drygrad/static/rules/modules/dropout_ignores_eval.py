"""Rule DG743: dropout that goes on in eval mode."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Edit, Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import written_as
from drygrad.static.facts.values import Reference, TorchCall
from drygrad.static.rules.modules.made_in_forward import is_only_called, made_module, moved
from drygrad.static.rules.modules.methods import module_around, self_name
from drygrad.static.syntax import argument, parameter_names
from drygrad.static.tree import walk

_FUNCTIONAL = "torch.nn.functional"
_CLASSES = {
    "Dropout": "dropout", "Dropout1d": "dropout1d", "Dropout2d": "dropout2d", "Dropout3d": "dropout3d",
    "AlphaDropout": "alpha_dropout", "FeatureAlphaDropout": "feature_alpha_dropout",
}  # fmt: skip
_ON_BY_DEFAULT = frozenset({f"{_FUNCTIONAL}.{name}" for name in ("dropout", "dropout1d", "dropout2d", "dropout3d")})


class DropoutIgnoresEval(Rule):
    """
    ## What it does
    Finds `F.dropout(x, p)` without `training=`, and `nn.Dropout(p)` created in a method of an `nn.Module`.

    ## Why is this bad?
    `F.dropout` does not know the module's mode: `training` defaults to True. A module created in a method starts in
    training mode, whatever the mode of the module around it. So after `model.eval()` both stay active: predictions are
    noisy and worse than they should be.

    ## Example
    ```python
    class Net(nn.Module):
        def forward(self, x):
            return F.dropout(x, 0.5)
    ```
    Use instead:
    ```python
    class Net(nn.Module):
        def forward(self, x):
            return F.dropout(x, 0.5, training=self.training)
    ```

    ## Fix safety
    Unsafe: the output in eval mode changes.
    """

    code, name, since = "DG743", "dropout-ignores-eval", "0.1"
    VALID = [
        Valid(
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.drop = nn.Dropout(0.5)

                def forward(self, x):
                    x = F.dropout(self.drop(x), 0.5, self.training)
                    return F.dropout(x, p=0.1, training=self.training)
            """
        ),
        Valid(
            """
            class MonteCarlo(nn.Module):
                def forward(self, x):
                    return F.dropout(x, 0.5, training=True)  # on purpose
            """
        ),
        Valid(
            """
            class Net(nn.Module):
                def forward(self, x):
                    if self.training:
                        x = F.dropout(x, 0.5)
                    return F.dropout(x, 0.0)
            """
        ),
        Valid("def augment(x):\n    return F.dropout(x, 0.1)"),
        Valid(
            """
            class Net(nn.Module):
                def forward(self, x, deterministic, rate=0.1):
                    if rate > 0 and not deterministic:
                        x = F.dropout(x, rate)
                    return x
            """
        ),
        Valid(
            """
            class Net(nn.Module):
                def forward(self, x, dropout_p=0.0):
                    return F.dropout(x, p=dropout_p) if dropout_p > 0.0 else x
            """
        ),
        Valid(
            """
            class Net(nn.Module):
                def forward(self, x, **options):
                    drop = nn.Dropout(0.1)
                    drop.train(self.training)
                    return drop(F.dropout(x, **options))
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc1 = nn.Linear(784, 128)
                    self.fc2 = nn.Linear(128, 10)

                def forward(self, x):
                    x = F.relu(self.fc1(x))
                    x = F.dropout(x, 0.5)
                    return self.fc2(x)
            """,
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc1 = nn.Linear(784, 128)
                    self.fc2 = nn.Linear(128, 10)

                def forward(self, x):
                    x = F.relu(self.fc1(x))
                    x = F.dropout(x, 0.5, training=self.training)
                    return self.fc2(x)
            """,
            at=(9, 12, 9, 29),
        ),
        Invalid(
            """
            class Net(nn.Module):
                def forward(self, x):
                    x = nn.Dropout(p=0.5)(x)
                    return F.dropout2d(
                        x,
                        p=0.2,  # fewer
                    )
            """,
            """
            class Net(nn.Module):
                def forward(self, x):
                    x = F.dropout(x, p=0.5, training=self.training)
                    return F.dropout2d(
                        x,
                        p=0.2,  # fewer
                    )
            """,
            count=2,
        ),
        Invalid(
            """
            class Attention(nn.Module):
                def __init__(self, dim, p):
                    super().__init__()
                    self.qkv = nn.Linear(dim, 3 * dim)
                    self.p = p

                def forward(self, x):
                    q, k, v = self.qkv(x).chunk(3, dim=-1)
                    weights = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
                    drop = nn.Dropout(self.p)
                    return drop(weights) @ v
            """,
            at=(10, 15, 10, 33),
        ),
        Invalid(
            """
            from torch.nn import Module
            from torch.nn.functional import dropout

            class Net(Module):
                def forward(self, x):
                    return dropout(x, .5,)  # import torch
            """,
            """
            from torch.nn import Module
            from torch.nn.functional import dropout

            class Net(Module):
                def forward(self, x):
                    return dropout(x, .5, training=self.training,)  # import torch
            """,
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        always_on = call is not None and _is_function_always_on(call)
        around = module_around(node, ctx) if always_on or _is_new_dropout(node, ctx) else None
        if around is None or _asks_for_mode(around[1]) or _is_switched(node, ctx) or _is_callers(node, around[1]):
            return
        owner = self_name(around[1])
        if always_on:
            yield ctx.finding(
                self,
                node,
                "without `training=`, dropout stays active after `model.eval()`",
                fixes=[ctx.fix(f"Pass `training={owner}.training`", *_with_training(node, owner, ctx))],
            )
        else:
            yield ctx.finding(
                self,
                node,
                f"a dropout created in `{around[1].name}` is always in training mode; it stays active after "
                "`model.eval()`",
                fixes=[_as_function(node, owner, ctx)],
            )


def _asks_for_mode(function: ast.FunctionDef) -> bool:
    """Say whether a method does different things in training and in eval mode."""
    tests = [node.test for node in walk(function) if isinstance(node, (ast.If, ast.IfExp))]
    return any(isinstance(n, ast.Attribute) and n.attr == "training" for test in tests for n in walk(test))


def _is_callers(node: ast.Call, function: ast.FunctionDef) -> bool:
    """Say whether a parameter is the rate: callers pass 0 in evaluation, as torch's attention wants it."""
    rate = argument(node, "p", 1 if len(node.args) > 1 else 0)
    return isinstance(rate, ast.Name) and rate.id in parameter_names(function)


def _is_switched(node: ast.Call, ctx: Context) -> bool:
    """Say whether a variable other than the rate decides whether anything is dropped: it may stand for the mode."""
    rates = {name.id for name in walk(node) if isinstance(name, ast.Name)}
    tests = [a.test for a in ctx.ancestors(node) if isinstance(a, (ast.If, ast.IfExp))]
    return any(isinstance(n, ast.Name) and n.id not in rates for test in tests for n in _truths(test))


def _truths(test: ast.expr) -> Iterator[ast.expr]:
    """Yield what a test asks whether it is true, rather than compares."""
    match test:
        case ast.BoolOp(values=values):
            for value in values:
                yield from _truths(value)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _truths(operand)
        case _:
            yield test


def _is_function_always_on(call: TorchCall) -> bool:
    if call.target not in _ON_BY_DEFAULT or call.operand("training") is not None or call.constant("p", 0.5) == 0:
        return False
    arguments = call.node.args
    hidden = any(isinstance(a, ast.Starred) for a in arguments) or any(k.arg is None for k in call.node.keywords)
    return not hidden and len(arguments) < 3


def _is_new_dropout(node: ast.Call, ctx: Context) -> bool:
    made = made_module(node, ctx)
    if made is None or made.cls is not None or made.type.rpartition(".")[2] not in _CLASSES:
        return False
    return is_only_called(moved(node, ctx), ctx)


def _with_training(node: ast.Call, owner: str, ctx: Context) -> list[Edit]:
    """Return the edit that adds ``training=`` after the last argument."""
    last = max([*node.args, *node.keywords], key=ctx.source.end)
    return [ctx.insert_after(last, f", training={owner}.training")]


def _as_function(node: ast.Call, owner: str, ctx: Context) -> Fix | None:
    """Write ``nn.Dropout(0.5)(x)`` as ``F.dropout(x, 0.5, training=self.training)``."""
    call, package = ctx.parent(node), ctx.value(node.func)
    if not isinstance(call, ast.Call) or call.func is not node or call.keywords or len(call.args) != 1:
        return None
    assert isinstance(package, Reference), "the class was imported"
    name = written_as(ctx, f"{_FUNCTIONAL}.{_CLASSES[package.name.rpartition('.')[2]]}")
    if name is None or "#" in ctx.source_of(call):
        return None
    given = [ctx.source_of(call.args[0]), *(ctx.source_of(a) for a in [*node.args, *node.keywords])]
    return ctx.fix(
        f"Pass `training={owner}.training`", ctx.replace(call, f"{name}({', '.join(given)}, training={owner}.training)")
    )
