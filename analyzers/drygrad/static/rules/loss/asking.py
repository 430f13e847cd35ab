"""Which domain a loss or a distribution asks its argument to be in: one account, which nine rules explain."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from drygrad.model import Finding, Fix, Rule
from drygrad.static.context import Context
from drygrad.static.editing import with_keyword
from drygrad.static.facts.values import Origin, TorchCall
from drygrad.static.rules.loss import activations
from drygrad.static.rules.loss.domains import PRODUCTS, Made, made
from drygrad.static.rules.loss.origins import LOGITS

Repair = Callable[[Context, TorchCall, ast.expr, Origin], Fix | None]


@dataclass(frozen=True)
class Asked:
    """What must not have made an argument of an operation, why, and how to repair it.

    ``before`` names what that must have been applied to, ``then`` what must have been applied to it, and ``option`` an
    option of the operation, its default and the value that all this holds for. ``direct`` wants the very result, and
    ``there`` says that the finding belongs to what made the argument where that is in another function or, for
    "assigned", in an assignment.
    """

    readers: str
    made_by: frozenset[str]
    message: str
    repair: Repair = lambda ctx, call, given, origin: None
    argument: str = "input"
    before: frozenset[str] = frozenset()
    then: frozenset[str] = frozenset()
    option: tuple[str, object, object] | None = None
    direct: bool = False
    there: bool | str = True

    def refused(self, call: TorchCall, found: Made | None) -> Made | None:
        """Return what made an argument where the operation does not take that."""
        if self.then:
            found = found.before if found is not None and found.operation in self.then else None
        if found is None or found.operation not in self.made_by or call.operation not in self.readers.split():
            return None
        inner = found.before if self.before else None
        fits = (found.direct or not self.direct) and (
            not self.before or (inner is not None and inner.operation in self.before)
        )
        is_so = self.option is None or call.constant(*self.option[:2]) == self.option[2]
        return found if fits and is_so else None


class DomainRule(Rule):
    """A rule that explains a domain that some operations do not take."""

    asked: ClassVar[tuple[Asked, ...]]
    calls: ClassVar[frozenset[str]]

    def __init_subclass__(cls) -> None:
        cls.calls = frozenset(" ".join(asked.readers for asked in cls.asked).split())

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        """Tell of an argument that is in a domain which the operation does not take."""
        call = ctx.call(node)
        for asked in self.asked if call is not None else ():
            given = call.operand(asked.argument) if call is not None else None
            found = asked.refused(call, made(ctx.tensor(given))) if call is not None else None
            if call is not None and given is not None and found is not None:
                yield self._told(ctx, asked, call, given, found)

    def _told(self, ctx: Context, asked: Asked, call: TorchCall, given: ast.expr, found: Made) -> Finding:
        """Tell where it has to change; an activation in another function, a model's forward, has to go from there."""
        origin, known = found.origin, found.direct or found.operation in LOGITS
        what = f"the {'raw output' if found.operation in LOGITS else 'result'} of {found.operation}"
        fixes = [asked.repair(ctx, call, given, origin)] if known else []
        elsewhere = ctx.function(origin.node) is not ctx.function(given)
        assigned = asked.there == "assigned" and activations.is_assigned_for(ctx, given, origin)
        place, text, related = given, f"here it gets {what}", activations.related(ctx, given, origin, found.operation)
        is_layer = found.operation in LOGITS or activations.layer_of(ctx, origin) is not None
        is_mixture = not known and origin.operation in PRODUCTS  # attention has to stay, the loss has to change
        if asked.there and (elsewhere or assigned) and not is_layer and not is_mixture:
            place, text = origin.node, f"it gets the result of this {found.operation}"
            related = [(f"passed to {call.operation} here", given)]
        message = asked.message.format(reader=call.operation, made=found.operation, what=text)
        return ctx.finding(self, place, message, related=related, fixes=fixes)


# -- repairs ----------------------------------------------------------------------------------------------------


def without(ctx: Context, call: TorchCall, given: ast.expr, origin: Origin) -> Fix | None:
    """Let the loss have what the operation was applied to."""
    return activations.logits_passed(ctx, given, origin)


def as_logarithm(ctx: Context, call: TorchCall, given: ast.expr, origin: Origin) -> Fix | None:
    """Let the loss have the logarithm of a softmax."""
    return activations.logarithm_passed(ctx, given, origin)


def with_logits(ctx: Context, call: TorchCall, given: ast.expr, origin: Origin) -> Fix | None:
    """Compute the same loss from logits."""
    renamed = activations.loss_renamed(ctx, call, "binary_cross_entropy_with_logits", "BCEWithLogitsLoss")
    logits = [] if origin.operation in LOGITS else activations.logits_named(ctx, given, origin)
    return ctx.fix("Use `binary_cross_entropy_with_logits`", *logits, renamed)


def optioned(title: str, name: str, value: object) -> Repair:
    """Tell the operation what it gets."""

    def repair(ctx: Context, call: TorchCall, given: ast.expr, origin: Origin) -> Fix | None:
        place = call.module.node if call.module is not None else call.node
        return ctx.fix(f"{title} `{name}={value}`", with_keyword(ctx, place, name, str(value)))

    return repair
