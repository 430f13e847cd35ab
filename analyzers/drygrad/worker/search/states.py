"""What an object holds by the time that a program calls the target, and does not hold yet when it is just made."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

from drygrad.worker.search.lacking import values_of
from drygrad.worker.search.nodes import Node, Path
from drygrad.worker.search.trial import Failure
from drygrad.worker.search.want import Want
from drygrad.worker.search.words import named_in_line

_BEHAVIOUR = re.compile(
    r"SimpleNamespace' (?:has no (?P<len>len)\(\)|object is not (?P<kind>subscriptable|iterable|callable))"
)
_METHODS = {"len": "__len__", "subscriptable": "__getitem__", "iterable": "__iter__", "callable": "__call__"}
_HOLDING = frozenset(("call", "prepared", "held", "text"))
_BASE = "base"


def unset(failure: Failure) -> Iterator[Want]:
    """Yield the attributes of inputs that are None where the code that failed takes something of them."""
    if "NoneType" not in str(failure.error) or failure.building is not None:
        return
    inner = getattr(failure.error, "name", None) if isinstance(failure.error, AttributeError) else None
    for trace in failure.frames()[:1]:
        line = linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        for owner, name in dict.fromkeys(re.findall(r"\b([A-Za-z_]\w*)\.(\w+)\b(?!\s*=[^=])", line)):
            held = trace.tb_frame.f_locals.get(owner)
            path = failure.path_of(held) if held is not None and _is_none(held, name) else None
            if path is None or (inner and not re.search(rf"\.{name}\.{inner}\b", line)):
                continue
            called = inner is not None and re.search(rf"\.{inner}\s*\(", line) is not None
            choices = (str(inner),) if inner else ()
            yield Want("state", int(called), text=name, choices=choices, paths=frozenset((path,)), why=f"{name} is set")


def behaving(failure: Failure) -> Iterator[Want]:
    """Yield the stand-ins for objects that are asked for their length, an element, all of these, or are called."""
    asked = _BEHAVIOUR.search(str(failure.error)) if isinstance(failure.error, TypeError) else None
    places = named_in_line(failure) if asked is not None else None
    if asked is not None and places is not None:
        name = _METHODS[asked["len"] or asked["kind"]]
        yield Want("behaviour", text=name, paths=places, why="the code uses it like this")


def with_behaviour(proposal: Node, want: Want) -> Iterator[Node]:
    """Give a stand-in for an object one of Python's special methods."""
    for path in want.paths or ():
        node = proposal.found_at(path)
        if node is None or node.kind != "namespace" or node.part(want.text) is not None:
            continue
        length = Node("number", value=8, why=want.why)
        for value in (length,) if want.text == "__len__" else values_of(replace(want, text="")):
            given = Node("changed", ".__iter__()", parts=(("value", value),)) if want.text == "__iter__" else value
            yield proposal.replaced(path, node.with_part(want.text, given))


def _is_none(held: Any, name: str) -> bool:
    """Say whether an object holds None under a name, without running any code of the user's."""
    own: Any = getattr(held, "__dict__", None)
    return isinstance(own, dict) and cast("dict[str, Any]", own).get(name, held) is None


def with_state(proposal: Node, want: Want) -> Iterator[Node]:
    """Give an attribute to an object after it was made."""
    for path in want.paths or ():
        place = _whole(proposal, path)
        node = proposal.at(place)
        if node.kind not in _HOLDING:
            continue
        plain = replace(node, others=(), spare=())
        held = node if node.kind == "held" else Node("held", parts=((_BASE, plain),), is_module=node.is_module)
        held = replace(held, source=node.source, why=want.why)
        yield from (proposal.replaced(place, held.with_part(want.text, value)) for value in _values(want))


def _whole(proposal: Node, path: Path) -> Path:
    """Return the part that an object is with all that was done to it."""
    while path[-1:] in ((_BASE,), ("made",)) and proposal.at(path[:-1]).kind in ("held", "prepared"):
        path = path[:-1]
    return path


def _values(want: Want) -> Iterator[Node]:
    if not want.choices:
        yield from values_of(want)
    for inner in want.choices:
        for value in values_of(replace(want, text=inner)):
            given = Node("function", parts=(("given", value),)) if want.want else value
            yield Node("namespace", parts=((inner, given),), why=want.why)
