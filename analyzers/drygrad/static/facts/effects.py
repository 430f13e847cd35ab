"""What code that is not followed may change."""

from __future__ import annotations

import ast
from dataclasses import replace

from drygrad.static.facts.frame import Frame, dotted_text
from drygrad.static.facts.values import UNKNOWN, Object, Sequence


def forget_mutable(frame: Frame, node: ast.Call) -> None:
    """What unknown code is given it may change: a list's items, a module's device and mode."""
    for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
        name = dotted_text(argument)
        value = frame.look_up(name) if name and "." not in name else UNKNOWN
        if name is None or value is UNKNOWN:
            continue
        if isinstance(value, Sequence) and value.kind == "list":
            frame.bind(name, UNKNOWN)
        elif isinstance(value, Object) and value.is_module:
            frame.state.names[name] = replace(value, device=None, training=None)
