"""Methods and the objects that they are bound to."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from drygrad.static.facts.frame import Frame
from drygrad.static.facts.values import Function, Object

if TYPE_CHECKING:
    from drygrad.static.facts.notes import Outcome


def self_name(function: Function) -> str:
    """Return what a method calls the object that it is bound to."""
    parameters = [*function.node.args.posonlyargs, *function.node.args.args]
    return parameters[0].arg if parameters else "self"


def bound(member: Function, owner: Object) -> Function:
    """Return a method as an attribute of an object gives it."""
    return member if is_static(member) else replace(member, receiver=owner)


def is_static(member: Function) -> bool:
    """Say whether a method is a static one."""
    decorators = [] if isinstance(member.node, ast.Lambda) else member.node.decorator_list
    return any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in decorators)


def adopt_attributes(frame: Frame, caller: Function, outcome: Outcome) -> None:
    """Show a caller the attributes of self that a method called on self (or super) has assigned."""
    callee = outcome.function
    if callee.receiver is None or callee.owner is None or caller.owner is None:
        return
    if callee.owner not in caller.owner.lineage():
        return
    theirs, ours = self_name(callee), self_name(caller)
    held = frame.look_up(ours)
    if isinstance(held, Object) and (changed := settled_as(held, outcome)) != held:
        frame.state.names[ours] = changed
    for name, value in outcome.names.items():
        if name.startswith(theirs + "."):
            frame.attribute_owners.add(ours)
            frame.state.names[ours + name.removeprefix(theirs)] = value


def settled_as(owner: Object, outcome: Outcome) -> Object:
    """Return an object as a method of its own has left it: moved by ``self.to(device)``, set by ``self.eval()``."""
    before, after = outcome.function.receiver, outcome.names.get(self_name(outcome.function))
    if not isinstance(before, Object) or not isinstance(after, Object):
        return owner
    fields = ("device", "dtype", "training", "frozen")
    changed = {name: getattr(after, name) for name in fields if getattr(after, name) != getattr(before, name)}
    return replace(owner, **changed) if changed else owner
