"""What inputs lack: arguments that are optional but needed, entries of mappings, attributes of stand-ins."""

from __future__ import annotations

import inspect
import linecache
import re
from collections.abc import Iterator
from dataclasses import replace
from types import FrameType

import torch

from drygrad.worker import errors
from drygrad.worker.search.nodes import Node, Path
from drygrad.worker.search.trial import Failure
from drygrad.worker.search.want import Want

_MISSING = re.compile(r"missing \d+ required (?:positional|keyword-only) arguments?: (?P<names>.+)")
_WORD = re.compile(r"\b[a-z]+(?:_[a-z\d]+)+\b|(?<=[`'])\w+(?=[`'])")
_QUOTED = re.compile(r"(?<!\w)['\"]([\w./-]+)['\"]")
_MOST_CHOICES = 9
OFFERED = "it is offered"
_FRAMES, _MOST_NAMES = 4, 5
_MAPPING = "type('Mapping', (dict,), {})"
_NUMBERS: tuple[tuple[str, int], ...] = (
    (r".*(heads?|experts|groups)", 4), (r".*(depth|layers|blocks|steps|epochs|levels)", 2),
    (r".*(vocab\w*|tokens)", 50),
    (r".*(classes|labels)", 10), (r".*(image|patch|frame)\w*size", 32), (r".*(len|length)", 64), (r".*rank|k|.*_k", 4),
    (r".*(channels|chans)", 3), (r".*(dim|dims|size|features|hidden|width|embed|channel|d_model)", 64),
)  # fmt: skip


def lacking(failure: Failure) -> Iterator[Want]:
    """Yield the arguments, entries and attributes without which the code cannot go on."""
    text = str(failure.error)
    missing = _MISSING.search(text)
    owners = frozenset((failure.building,)) if failure.building is not None else None
    if missing is not None:
        for name in re.findall(r"'(\w+)'", missing["names"]):
            yield Want("lack", text=name, paths=owners, why=f"`{name}` must be given")
    if isinstance(failure.error, KeyError) and failure.error.args and isinstance(failure.error.args[0], str):
        yield Want("entry", text=failure.error.args[0], why=f"the code reads its entry {failure.error.args[0]!r}")
    yield from _attributes(failure)
    if isinstance(failure.error, (AssertionError, ValueError)) or "NoneType" in text:
        for name in _absent(failure):
            yield Want("lack", text=name, paths=owners, why=f"`{name}` must be given")


def named(failure: Failure) -> Iterator[Want]:
    """Yield the parts whose names the words of an error have in them: ``label_smoothing must be between 0 and 1``."""
    if isinstance(failure.error, (ValueError, RuntimeError, AssertionError)):
        for name in dict.fromkeys(_WORD.findall(errors.first_line(failure.error))):
            yield Want("named", text=name, why=f"`{name}` is complained of")


def offered(failure: Failure) -> Iterator[Want]:
    """Yield what could stand for a text that an error quotes beside other ones: ``'name' is none of ['a', 'b']``."""
    given = failure.error.args[0] if failure.error.args else ""
    if isinstance(failure.error, (ValueError, KeyError, AssertionError, RuntimeError)) and isinstance(given, str):
        quoted = [*dict.fromkeys(_QUOTED.findall(given))]
        if len(quoted) > 1:
            yield Want("choice", text=quoted[0], choices=tuple(quoted[1:_MOST_CHOICES]), why=OFFERED)


def standing_in(failure: Failure) -> Iterator[Want]:
    """Yield the parts that are modules in whose ``forward`` the code failed: others may take what it gives them."""
    if failure.building is None:
        modules = [trace.tb_frame.f_locals.get("self") for trace in failure.frames()]
        paths = [failure.path_of(module) for module in modules if isinstance(module, torch.nn.Module)]
        for path in dict.fromkeys(path for path in paths if path is not None):
            yield Want("swap", paths=frozenset((path,)), why="it accepts this argument")


def _attributes(failure: Failure) -> Iterator[Want]:
    error = failure.error
    owner = getattr(error, "obj", None)
    name = getattr(error, "name", None)
    if not isinstance(error, AttributeError) or owner is None or not name:
        return
    if isinstance(owner, (torch.Tensor, int)) and hasattr(torch.Tensor, name):  # it should be a tensor; it was too much
        return
    path = failure.path_of(owner)
    if path is not None:
        trace = failure.frames()[0]
        line = linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        called = re.search(rf"\.{name}\s*\(", line) is not None
        yield Want("attribute", int(called), text=name, paths=frozenset((path,)), why=f"`.{name}` is read")


def _absent(failure: Failure) -> Iterator[str]:
    """Yield the parameters of the functions that failed whose value is None."""
    seen: set[str] = set()
    for trace in failure.frames()[:_FRAMES]:
        for name in _parameters(trace.tb_frame):
            if trace.tb_frame.f_locals.get(name, 0) is None and name not in seen and len(seen) < _MOST_NAMES:
                seen.add(name)
                yield name


def _parameters(frame: FrameType) -> list[str]:
    code = frame.f_code
    names = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    line = linecache.getline(code.co_filename, frame.f_lineno)
    return sorted(names, key=lambda name: re.search(rf"\b{name}\b", line) is None) if inspect.isframe(frame) else names


def with_argument(proposal: Node, want: Want) -> Iterator[Node]:
    """Add an argument to what is called: the target, or the constructors below one input."""
    under = want.paths or frozenset[Path]()
    nodes = [(path, node) for path, node in proposal.nodes() if node.kind == "call" and path[:1] in under]
    for path, node in nodes if want.paths is not None else [((), proposal)]:
        if node.part(want.text) is None:
            offered = [replace(option, why=want.why) for name, option in node.options if name == want.text]
            for value in (*offered, *values_of(want)):
                yield proposal.replaced(path, node.with_part(want.text, value))


def with_entry(proposal: Node, want: Want) -> Iterator[Node]:
    """Add an entry to the mappings that lack it."""
    for path, node in proposal.nodes():
        if node.kind == "mapping" and node.part(want.text) is None:
            for value in values_of(want):
                yield proposal.replaced(path, node.with_part(want.text, value))


def with_attribute(proposal: Node, want: Want) -> Iterator[Node]:
    """Add an attribute to what stands for an object, or let an object stand where a tensor stood."""
    for path in want.paths or ():
        node = proposal.at(path)
        owner = _owner_of(node, want)
        if owner is None:
            continue
        for value in values_of(want):
            given = Node("function", parts=(("given", value),)) if want.want else value
            yield proposal.replaced(path, owner.with_part(want.text, given))


def _owner_of(node: Node, want: Want) -> Node | None:
    """Return what can be given an attribute where a part stands; None where it stays as it is."""
    plain = replace(node, others=(), spare=())
    if node.kind in ("namespace", "bare", "held"):
        return node
    if node.kind in ("tensor", "number"):
        return Node("namespace", source="search", why=want.why)
    if node.kind == "mapping":
        plain = Node("call", _MAPPING, parts=(("0", plain),))
    return Node("held", parts=(("base", plain),), source=node.source) if node.kind in ("mapping", "call") else None


def values_of(want: Want) -> Iterator[Node]:
    """Yield what a name could stand for, each with all the others."""
    found = [*_meant(want)]
    for value in found:
        yield replace(value, others=tuple(other for other in found if other is not value))


def _meant(want: Want) -> Iterator[Node]:
    number = next((value for pattern, value in _NUMBERS if re.fullmatch(pattern, want.text.lower())), None)
    tensor = Node("tensor", shape=(2, 8, 64), why=want.why)
    if number is not None:
        yield Node("number", value=number, why=want.why)
    elif "mask" in want.text:
        yield replace(tensor, shape=(2, 8), dtype="bool")
    yield replace(tensor, shape=(2, 64))
    yield tensor
    if number is None:
        yield Node("number", value=8, why=want.why)
    yield Node("text", text="torch.nn.Identity()", why=want.why)
    yield Node("text", text="0.5", why=want.why)
