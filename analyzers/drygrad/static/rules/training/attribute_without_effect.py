"""Rule DG717: an attribute that looks like a setting of torch's and is none."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.iteration import contained_modules
from drygrad.static.facts.values import Class, Object
from drygrad.static.roles import is_optimizer_class, rests_on_name, role_of
from drygrad.static.syntax import parameter_names

_MISSPELT = frozenset(
    "require_grad require_grads requires_grads required_grad requires_gradient require_gradient require_gradients "
    "requires_gradients requiers_grad requries_grad".split()
)
_OF_GROUPS = frozenset({"lr", "learning_rate", "weight_decay", "momentum"})


class AttributeWithoutEffect(Rule):
    """
    ## What it does
    Finds assignments to attributes that torch does not read there: `model.requires_grad = False` on an `nn.Module`,
    `p.require_grad = False` (misspelled), `optimizer.lr = 1e-4`. Also finds `model.training = False`, which does not
    reach the submodules.

    ## Why is this bad?
    Python lets you set any attribute, so nothing raises: layers that should be frozen keep learning, and the learning
    rate does not change. `requires_grad` is an attribute of parameters (use `requires_grad_()` for a whole module);
    setting `training` changes the module but not the dropout and batch norm inside it; an optimizer reads its learning
    rate from `param_groups`.

    ## Example
    ```python
    model.backbone.requires_grad = False
    optimizer.lr = 1e-4
    ```
    Use instead:
    ```python
    model.backbone.requires_grad_(False)
    for group in optimizer.param_groups:
        group["lr"] = 1e-4
    ```

    ## Fix safety
    Unsafe: code that had no effect now has one.
    """

    code, name, since = "DG717", "attribute-without-effect", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
            model.requires_grad_(False)
            model[0].weight.requires_grad = False
            for p in model.parameters():
                p.requires_grad = False
            """
        ),
        Valid(
            """
            class Net(nn.Module):
                def __init__(self, requires_grad=False):
                    super().__init__()
                    self.requires_grad = requires_grad
                    self.fc = nn.Linear(4, 4)

            net = Net()
            net.requires_grad = True
            """
        ),
        Valid("norm = nn.BatchNorm1d(4)\nnorm.training = False"),
        Valid(
            """
            def schedule(optimizer, lr):
                for group in optimizer.param_groups:
                    group["lr"] = lr
            """
        ),
        Valid(
            """
            class Warmup:
                def __init__(self, optimizer):
                    self.optimizer = optimizer
                    self.lr = 0.1

            optimizer = Warmup(torch.optim.SGD([torch.zeros(2, requires_grad=True)], lr=0.1))
            optimizer.lr = 0.2
            """
        ),
        Valid(
            """
            from ml_collections import ConfigDict

            def defaults():
                config = ConfigDict()
                config.optim = optim = ConfigDict()
                optim.weight_decay = 0
                optim.lr = 2e-4
                return config
            """
        ),
        Valid(
            """
            def wrap(config, value):
                config.require_grad = False
                return value if config.require_grad else None
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            class Tagger(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.backbone = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
                    self.backbone.requires_grad = False
                    self.head = nn.Linear(8, 2)
            """,
            """
            class Tagger(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.backbone = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
                    self.backbone.requires_grad_(False)
                    self.head = nn.Linear(8, 2)
            """,
            at=(5, 8, 5, 35),
        ),
        Invalid(
            """
            def freeze(model):
                for p in model.backbone.parameters():
                    p.require_grad = False
            """,
            """
            def freeze(model):
                for p in model.backbone.parameters():
                    p.requires_grad = False
            """,
            at=(3, 8, 3, 22),
        ),
        Invalid(
            """
            model = nn.Linear(4, 4)
            optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
            optimizer.lr = 1e-4
            """,
            """
            model = nn.Linear(4, 4)
            optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
            for group in optimizer.param_groups:
                group["lr"] = 1e-4
            """,
        ),
        Invalid(
            """
            model = nn.Sequential(nn.Linear(4, 4), nn.Dropout())
            model.training = False
            """,
            """
            model = nn.Sequential(nn.Linear(4, 4), nn.Dropout())
            model.train(False)
            """,
        ),
    ]

    def visit_assign(self, node: ast.Assign, ctx: Context) -> Iterator[Finding]:
        for target in node.targets:
            if isinstance(target, ast.Attribute):
                message, fix = _judged(node, target, ctx)
                if message:
                    yield ctx.finding(self, target, message, fixes=[fix])


def _judged(node: ast.Assign, target: ast.Attribute, ctx: Context) -> tuple[str, Fix | None]:
    """Return what is wrong with an assignment to an attribute, and its fix; no words where nothing is."""
    owner, attribute = ctx.source_of(target.value), target.attr
    if attribute in _MISSPELT and _is_flag(node.value) and not _is_read(attribute, ctx):
        fix = ctx.fix("Rename it to `requires_grad`", ctx.replace(target, f"{owner}.requires_grad"))
        return f"tensors have no attribute `{attribute}`; setting it has no effect", fix
    if attribute in ("requires_grad", "training") and _is_foreign_module(target, ctx):
        method = "requires_grad_" if attribute == "requires_grad" else "train"
        value = ctx.source_of(node.value)
        fix = ctx.fix(f"Call `{method}()`", ctx.replace(node, f"{owner}.{method}({value})"))
        reach = "its parameters are not affected" if method != "train" else "submodules keep their mode"
        return f"this sets {attribute} on the module only; {reach}", fix if len(node.targets) == 1 else None
    if attribute in _OF_GROUPS and _is_optimizer(target, ctx):
        return f"the optimizer reads its param_groups, not {attribute}; setting it has no effect", _for_groups(
            node, ctx
        )
    return "", None


def _is_flag(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) or (isinstance(value, ast.Constant) and isinstance(value.value, bool))


def _is_read(attribute: str, ctx: Context) -> bool:
    """Say whether the file reads an attribute of this name, which is its own invention then."""
    return any(n.attr == attribute and isinstance(n.ctx, ast.Load) for n in ctx.nodes(ast.Attribute))


def _is_foreign_module(target: ast.Attribute, ctx: Context) -> bool:
    """Say whether the attribute of a module is set from outside, whose class makes nothing of it."""
    value = ctx.value(target.value)
    if not isinstance(value, Object) or not value.is_module:
        return False
    if isinstance(target.value, ast.Name) and target.value.id in ("self", "cls"):
        return False
    if target.attr == "training" and value.cls is None and contained_modules(value) is None:
        return False  # with no module inside, the attribute is the mode
    return value.cls is None or not _defines(value.cls, target.attr, ctx)


def _defines(cls: Class, attribute: str, ctx: Context) -> bool:
    if cls.member(attribute) is not None or not cls.known_bases:
        return True
    return any(
        n.attr == attribute and isinstance(n.value, ast.Name) and n.value.id == "self" for n in ctx.nodes(ast.Attribute)
    )


def _is_optimizer(target: ast.Attribute, ctx: Context) -> bool:
    value = ctx.value(target.value)
    if isinstance(value, Object):
        return is_optimizer_class(value.type) and value.cls is None
    owner = target.value
    if not isinstance(owner, ast.Name) or owner.id == "self" or _is_read(target.attr, ctx):
        return False
    return role_of(ctx, owner) == "optimizer" and (not rests_on_name(ctx, owner) or _is_given(owner, ctx))


def _is_given(name: ast.Name, ctx: Context) -> bool:
    """Say whether the file binds a name to nothing itself, which might be a section of a configuration."""
    function = ctx.function(name)
    if function is not None and name.id in parameter_names(function):
        return True
    return not any(n.id == name.id and isinstance(n.ctx, ast.Store) for n in ctx.nodes(ast.Name))


def _for_groups(node: ast.Assign, ctx: Context) -> Fix | None:
    target = node.targets[0]
    if len(node.targets) != 1 or not isinstance(target, ast.Attribute):
        return None
    key = "lr" if target.attr == "learning_rate" else target.attr
    indentation = ctx.source.indentation(node.lineno)
    head = f"for group in {ctx.source_of(target.value)}.param_groups:"
    body = f'{ctx.source.newline}{indentation}    group["{key}"] = {ctx.source_of(node.value)}'
    return ctx.fix("Set it in `param_groups`", ctx.replace(node, head + body))
