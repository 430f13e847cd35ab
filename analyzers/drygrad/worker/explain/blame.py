"""Whose line a fault is: where an operand got the attribute that does not fit, or where it was handed on.

A function that was handed an operand as it is cannot help what the operand is: its caller can. So a fault of operands
that only meet in a function stands where they were put together. Where the user's text has given an operand the
attribute that does not fit, in a place that knew better, it stands there. A function that moves to the device what it
has is one that knew better.
"""

from __future__ import annotations

import ast
import dis
import inspect
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import CodeType
from typing import NamedTuple

import torch

from drygrad.worker.ledger import Held, Origin
from drygrad.worker.lines import Instruction, Lines
from drygrad.worker.naming import Call
from drygrad.worker.reading import share_storage
from drygrad.worker.run import Place, Run
from drygrad.worker.spelling import whole_text_of
from drygrad.worker.texts import function_at, tree_of

COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
"""Before Python 3.12 these are functions of their own, but no text hands them anything."""

Same = Callable[[torch.Tensor], bool]


class Owned(NamedTuple):
    """The call whose function put an operand where it fails, and the tensor that it handed on."""

    call: Call
    tensor: torch.Tensor

    @property
    def name(self) -> str | None:
        """How the function writes the tensor."""
        return self.call.name(self.tensor)


def owner(calls: Sequence[Call], tensor: torch.Tensor, same: Same) -> Owned:
    """Return the call, of these from the innermost outward, whose function was not itself handed the operand."""
    owned = Owned(calls[0], tensor)
    for call, outer in zip(calls, calls[1:]):
        if call.code.co_name in COMPREHENSIONS:
            continue
        handed = [v for v in call.arguments().values() if isinstance(v, torch.Tensor) and same(v)]
        if not handed:
            break
        owned = Owned(outer, next((value for value in handed if value is owned.tensor), handed[0]))
    return owned


def put_together(calls: Sequence[Call], tensors: Sequence[torch.Tensor]) -> Call:
    """Return the call whose function was not itself handed all of some operands, just as they are."""
    for call, outer in zip(calls, calls[1:]):
        handed = {id(value) for value in call.arguments().values()}
        if call.code.co_name not in COMPREHENSIONS and not handed.issuperset(map(id, tensors)):
            return call
        if outer.place is None:
            return call
    return calls[-1]


def of_device(run: Run, tensor: torch.Tensor) -> Same:
    """Return what says of a tensor whether this one has its device from it."""
    held: Held | None = run.held_of(tensor)

    def same(other: torch.Tensor) -> bool:
        known: Held | None = run.held_of(other)
        inherited = held is not None and known is not None and known.roots.device is held.roots.device
        return other is tensor or share_storage(other, tensor) or (inherited and other.device == tensor.device)

    return same


def of_dtype(run: Run, tensor: torch.Tensor) -> Same:
    """Return what says of a tensor whether this one has its dtype from it."""
    held: Held | None = run.held_of(tensor)

    def same(other: torch.Tensor) -> bool:
        known: Held | None = run.held_of(other)
        inherited = held is not None and known is not None and known.roots.dtype is held.roots.dtype
        return other.dtype == tensor.dtype and (other is tensor or share_storage(other, tensor) or inherited)

    return same


def itself(tensor: torch.Tensor) -> Same:
    """Return what says of a tensor whether it is this one."""
    return lambda other: other is tensor


def made_unaware(origin: Origin, mine: Call) -> Instruction | None:
    """Return the line, at or below a call, of a function that had the accelerator at hand and made a tensor elsewhere.

    None where no such function has made it.
    """
    if origin.aware is None or mine.code not in {line.code for line in origin.lines[origin.aware :]}:
        return None
    return origin.lines[origin.aware]


def made_too_early(origin: Origin, calls: Sequence[Call]) -> Instruction | None:
    """Return the line of a function under way in which something was made of what has been moved since."""
    under_way = {call.code for call in calls}
    return next((line for line in origin.lines if line.code in under_way), None)


def moves(call: Call, lines: Lines) -> bool:
    """Say whether the function of a call moves something that it has a name for."""
    source = lines.source(call.code.co_filename)
    return source is not None and _moves("\n".join(source), call.code.co_firstlineno)


def function_moves(code: CodeType, lines: Lines) -> bool:
    """Say whether a function moves anything, what it has just made included."""
    source = lines.source(code.co_filename)
    if source is None:
        return False
    function = _body_at("\n".join(source), code.co_firstlineno)
    calls = (n.func for n in ast.walk(function) if isinstance(n, ast.Call))
    return any(isinstance(called, ast.Attribute) and called.attr in ("to", "cuda") for called in calls)


def comes_from(call: Call, name: str, function: CodeType, lines: Lines) -> bool:
    """Say whether the function of a call has a name from what another function has returned, or yields."""
    source = lines.source(call.code.co_filename)
    base = re.match(r"[a-zA-Z_]\w*", name)
    if source is None or base is None:
        return False
    if function.co_flags & inspect.CO_GENERATOR:
        return is_delivered(call, name, lines)
    body = _body_at("\n".join(source), call.code.co_firstlineno)
    bound = (n for n in ast.walk(body) if isinstance(n, ast.Assign) and _binds(n.targets, base.group()))
    calls = (n.func for statement in bound for n in ast.walk(statement.value) if isinstance(n, ast.Call))
    return any(ast.unparse(called).rpartition(".")[2] == function.co_name for called in calls)


def _binds(targets: list[ast.expr], name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name for target in targets for n in ast.walk(target))


class Size(NamedTuple):
    """A size that a layer was made with: the line that has chosen it, and how it writes it there."""

    place: Place
    text: str


def size_of_layer(made: Sequence[Instruction], name: str, lines: Lines) -> Size | None:
    """Return where the first argument of a layer was chosen: a function that was handed it did not choose it.

    ``made`` are the user's lines that led to the layer, the innermost first; ``name`` is what its class calls the size.
    """
    found: Size | None = None
    position = 0
    for line in made:
        place, text = lines.place(line), whole_text_of(lines, line)
        call = ast.parse(text.strip(), mode="eval").body if text and place is not None else None
        chosen = _argument(call, name, position) if isinstance(call, ast.Call) else None
        if chosen is None or place is None:
            return found
        found = Size(place, ast.unparse(chosen))
        parameters = line.code.co_varnames[: line.code.co_argcount + line.code.co_kwonlyargcount]
        if not isinstance(chosen, ast.Name) or chosen.id not in parameters:
            return found
        name, position = chosen.id, parameters.index(chosen.id) - (parameters[:1] == ("self",))
    return found


def _argument(call: ast.Call, name: str, position: int) -> ast.expr | None:
    by_name = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
    given = call.args[position] if position < len(call.args) else None
    return by_name or (None if isinstance(given, ast.Starred) else given)


def is_delivered(call: Call, name: str | None, lines: Lines) -> bool:
    """Say whether a loop has bound the name of a value in the function of a call: it came with the data."""
    source = lines.source(call.code.co_filename)
    if source is None or name is None:
        return False
    return name.partition(".")[0].partition("[")[0] in _loop_names("\n".join(source), call.code.co_firstlineno)


def is_loop(instruction: Instruction) -> bool:
    """Say whether an instruction fetches what a loop goes through: what is made there, the data's code has made."""
    opcode = instruction.code.co_code[instruction.offset]
    return dis.opname[opcode] in ("FOR_ITER", "GET_ITER", "SEND", "GET_ANEXT")


@lru_cache(maxsize=64)
def _moves(text: str, first: int) -> bool:
    calls = (n.func for n in ast.walk(_body_at(text, first)) if isinstance(n, ast.Call))
    moved = (n.value for n in calls if isinstance(n, ast.Attribute) and n.attr in ("to", "cuda"))
    return any(isinstance(value, (ast.Name, ast.Attribute, ast.Subscript)) for value in moved)


@lru_cache(maxsize=64)
def _loop_names(text: str, first: int) -> frozenset[str]:
    """Return the names that loops bind in the function that begins in a line."""
    body = _body_at(text, first)
    loops = (n.target for n in ast.walk(body) if isinstance(n, (ast.For, ast.AsyncFor, ast.comprehension)))
    return frozenset(n.id for target in loops for n in ast.walk(target) if isinstance(n, ast.Name))


def _body_at(text: str, first: int) -> ast.AST:
    """Return the function that begins in a line; the whole file where none does."""
    return function_at(text, first) or tree_of(text)
