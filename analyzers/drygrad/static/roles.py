"""What an object is for in a training loop: by its type, else by what is done with it; a name only breaks the tie."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, TypeAlias

from drygrad.static.context import Context
from drygrad.static.facts.notes import CallSite
from drygrad.static.facts.values import NONE, UNKNOWN, Choice, Method, Object, Reference, Tensor, Value
from drygrad.static.syntax import argument, parameter_names
from drygrad.static.uses import used_as, uses_in

Role: TypeAlias = Literal["optimizer", "scheduler", "scaler", "model", "loss", "tensor", "other"]

_CONVENTIONS: tuple[tuple[Role, re.Pattern[str]], ...] = (
    (
        "scheduler",
        re.compile(r"^(?!.*noise)(.*_)?(lr_?)?sched(uler)?(_?[a-z]|\d)?$|^scheduler_\w+$|^lr_sched\w*$", re.I),
    ),
    ("scaler", re.compile(r"^((grad|amp|loss)_?)?scaler(_?[a-z]|\d)?$|_scaler$", re.I)),
    ("optimizer", re.compile(r"^(opt|optim|optimi[sz]er)(_\w+|\d|[A-Z])?$|_opt$|(optim|optimi[sz]er)$", re.I)),
    ("loss", re.compile(r"^(criterion|(loss|cost|objective)_?(fn|func|function|criterion|module)?)(_\w+|\d)?$", re.I)),
    ("loss", re.compile(r"^(?!compute|calc|get|train|forward|eval|step)\w+_(criterion|loss(_fn)?)$", re.I)),
    ("model", re.compile(r"^(model|net|network|module)(_\w+|\d|[A-Z])?$|(_|^my)(model|net|network)$", re.I)),
    ("model", re.compile(r"^(generator|discriminator|critic|actor|student|encoder|decoder|classifier)$", re.I)),
)
_SCALERS = frozenset({"torch.amp.GradScaler", "torch.cuda.amp.GradScaler", "torch.cpu.amp.GradScaler"})


def role_of(ctx: Context, node: ast.expr) -> Role | None:
    """Return what an expression is for; None where neither its type, nor its uses, nor its name tells."""
    value = ctx.value(node)
    if _tells(value):
        return role_of_value(value)
    return used_as(ctx, node) or _given_as(ctx, node) or role_of_name(node)


def rests_on_name(ctx: Context, node: ast.expr) -> bool:
    """Say whether nothing but its name tells what an expression is for."""
    told = _tells(ctx.value(node)) or used_as(ctx, node) is not None or _given_as(ctx, node) is not None
    return not told and role_of_name(node) is not None


def roles_by_call(ctx: Context) -> Mapping[tuple[ast.AST, str], Role]:
    """Return what the parameters of functions are for, as all their callers in the file tell it."""
    return ctx.derived(_roles_by_call)


def _given_as(ctx: Context, node: ast.expr) -> Role | None:
    function = ctx.function(node) if isinstance(node, ast.Name) else None
    return None if function is None else roles_by_call(ctx).get((function, ast.unparse(node)))


def _roles_by_call(ctx: Context) -> dict[tuple[ast.AST, str], Role]:
    found: dict[tuple[ast.AST, str], Role] = {}
    for function, sites in ctx.facts.callers.items():
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        used = uses_in(function)
        names = parameter_names(function)
        for name in names if any(name in used for name in names) else ():
            roles: set[Role | None] = {_role_given(ctx, site, names, name) for site in sites}
            role = roles.pop() if len(roles) == 1 else None
            if role is not None:
                found[function, name] = role
    return found


def _role_given(ctx: Context, site: CallSite, names: list[str], name: str) -> Role | None:
    """Return what is given for a parameter, where its value is not known."""
    if not isinstance(site.node, ast.Call):
        return None
    own = names[1:] if site.receiver is not None else names
    position = own.index(name) if name in own else None
    given = argument(site.node, name, position)
    if given is None or _tells(ctx.value(given)):
        return None
    return used_as(ctx, given) or role_of_name(given)


def _tells(value: Value) -> bool:
    """Say whether a value has a type; an attribute that the file never assigns has none, and None stands for any."""
    return not (value is UNKNOWN or value == NONE or isinstance(value, Method))


def role_of_value(value: Value) -> Role:
    """Return the role that a value's type tells."""
    match value:
        case Choice(options=options):
            roles: set[Role] = {role_of_value(option) for option in options if option != NONE}
            return roles.pop() if len(roles) == 1 else "other"
        case Object():
            return _role_of_object(value)
        case Tensor():
            return "tensor"
        case _:
            return "other"


def _role_of_object(value: Object) -> Role:
    if is_scheduler_class(value.type):
        return "scheduler"
    if is_optimizer_class(value.type) or _derives_from_optimizer(value):
        return "optimizer"
    if value.type in _SCALERS:
        return "scaler"
    if not value.is_module:
        return "other"
    return "loss" if value.type.startswith("torch.nn.") and value.type.endswith("Loss") else "model"


def _derives_from_optimizer(value: Object) -> bool:
    if value.cls is None:
        return any(is_optimizer_class(base) for base in value.bases)
    return any(
        isinstance(base, Reference) and is_optimizer_class(base.name)
        for cls in value.cls.lineage()
        for base in cls.bases
    )


def is_optimizer_class(name: str) -> bool:
    """Say whether a full name is that of one of torch's optimizers."""
    return _is_optim_class(name) and not is_scheduler_class(name) and name != "torch.optim.AveragedModel"


def is_scheduler_class(name: str) -> bool:
    """Say whether a full name is that of one of torch's learning-rate schedulers."""
    return _is_optim_class(name) and name.endswith(("LR", "Scheduler", "Plateau", "Restarts"))


def _is_optim_class(name: str) -> bool:
    package, _, last = name.rpartition(".")
    return package == "torch.optim" and last[:1].isupper()


def role_of_name(node: ast.expr) -> Role | None:
    """Return the role that the last part of a name stands for by convention."""
    while isinstance(node, ast.Subscript):
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            return _role_by_convention(node.slice.value)
        node = node.value
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return _role_by_convention(name)
        case _:
            return None


@lru_cache(maxsize=10_000)
def _role_by_convention(name: str) -> Role | None:
    return next((role for role, pattern in _CONVENTIONS if pattern.search(name)), None)
