"""How the user calls a tensor: names, attributes and expressions at the place where an operation was called."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import ast
import dis
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from types import CodeType, FrameType, ModuleType
from typing import Any, cast

import torch

from drygrad.worker.lines import Instruction, Lines
from drygrad.worker.reading import share_storage
from drygrad.worker.run import Place, Run

_DEPTH = 3
_NUMBER = re.compile(r"\.(\d+)(?=\.|$)")
_ITEMS = 32
_HELD = ("_parameters", "_buffers", "_modules")


class Call:
    """A line of the user's that has called torch: the user's frame, and torch's frames below it, outermost first."""

    def __init__(self, run: Run, user: Instruction, frame: FrameType, inner: list[FrameType]) -> None:
        self.place: Place | None = run.lines.place(user)
        self.inner = inner
        self._lines = run.lines
        self._frame = frame
        self.text = run.lines.text(self.place) if self.place else None

    def name(self, tensor: torch.Tensor) -> str | None:
        """Return how the user writes this tensor: a name, an attribute, an element, or an argument's expression."""
        return self.find(tensor)[0]

    def given(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield the tensors that torch's innermost function was given, with the names of its parameters."""
        for frame in reversed(self.inner):
            found = [(name, value) for name, value in _arguments(frame) if isinstance(name, str)]
            tensors = [pair for name, value in found for pair in tensors_in(name, value)]
            if tensors:
                yield from tensors
                return

    def find(self, tensor: torch.Tensor) -> tuple[str | None, torch.Tensor]:
        """Return how the user writes this tensor, and the one that is written so: perhaps of another shape."""
        best, found = (0, 0), (self._argument_text(tensor), tensor)
        for name, value in self.visible():
            likeness = _likeness(value, tensor) if isinstance(value, torch.Tensor) else 0
            rank = likeness, -name.count("[") - name.count(".")
            if likeness and rank > best:
                best, found = rank, (name, cast("torch.Tensor", value))
                if best == (_SAME, 0):
                    break
        return found

    def describe(self, tensor: torch.Tensor, otherwise: str) -> str:
        """Return the user's name of a tensor in backquotes; other words where it has none."""
        name = self.name(tensor)
        return f"`{name}`" if name else otherwise

    def module(self) -> tuple[torch.nn.Module, str] | None:
        """Return the innermost module that runs in torch's own code, and its name: ``self.fc`` or ``Linear``."""
        for frame in reversed(self.inner):
            module = locals_of(frame).get("self")
            if isinstance(module, torch.nn.Module):
                named = next((name for name, value in self.visible() if value is module), None)
                return module, f"`{named}`" if named else type(module).__name__
        return None

    @property
    def code(self) -> CodeType:
        """The function that the line stands in."""
        return self._frame.f_code

    def arguments(self) -> dict[str, object]:
        """Return what the function that the line stands in was called with, as far as it has kept the names."""
        code = self._frame.f_code
        if code.co_name == "<module>":
            return {}
        values = locals_of(self._frame)
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        return {name: values[name] for name in names if name in values}

    def receiver(self) -> object:
        """Return the object whose method the line stands in; None in a plain function."""
        code = self._frame.f_code
        name = code.co_varnames[0] if code.co_argcount else ""
        return locals_of(self._frame).get(name)

    def names(self) -> Iterator[tuple[str, object]]:
        """Yield what the function has plain names for, and then what its receiver's attributes are."""
        values = locals_of(self._frame)
        yield from values.items()
        for name, value in list(getattr(self.receiver(), "__dict__", {}).items()):
            yield f"{self.code.co_varnames[0]}.{name}", value

    def read_of_file(self) -> Iterator[object]:
        """Yield what a function reads of the names at the top of its file; what is no function of a file has none."""
        if not self.code.co_name.startswith("<"):
            yield from (self._frame.f_globals[name] for name in self.code.co_names if name in self._frame.f_globals)

    def value_of(self, node: ast.expr) -> Any:
        """Return what a name, an attribute or an element stands for at this place; None where nobody knows."""
        return looked_up(node, self._frame)

    def written(self, tensor: torch.Tensor) -> list[str]:
        """Return how the text of this call writes a tensor; how the user could, where it does not."""
        expression = self.expression()
        parts = (n for n in ast.walk(expression) if isinstance(n, ast.expr)) if expression is not None else ()
        texts = [ast.unparse(part) for part in parts if self.value_of(part) is tensor]
        return texts or [name for name in [self.name(tensor)] if name]

    def binding(self, name: str) -> Place | None:
        """Return the next line after this one, in the same function, that binds a name or an attribute."""
        return binding_in(self._frame.f_code, name, self._lines, self.place.line) if self.place else None

    def function(self) -> str | None:
        """Return the name of the function of ``torch.nn.functional`` that the user has called."""
        outermost = self.inner[0] if self.inner else None
        if outermost is None or not outermost.f_globals.get("__name__", "").endswith("functional"):
            return None
        return outermost.f_code.co_name

    def written_function(self) -> str:
        """Return the name of the function or method that the text calls here."""
        expression = self.expression()
        if isinstance(expression, ast.Call):
            return ast.unparse(expression.func).rpartition(".")[2]
        return "this operation"

    def local(self, *names: str) -> list[Any]:
        """Return the values of local names in the innermost frame of torch's that has them all; [] if none has."""
        for frame in reversed(self.inner):
            values = locals_of(frame)
            if all(name in values for name in names):
                return [values[name] for name in names]
        return []

    def visible(self) -> Iterator[tuple[str, object]]:
        """Yield the tensors and modules that the user can write at this place, with how; plain names first."""
        frame = self._frame
        own = locals_of(frame)
        yield from ((name, value) for name, value in own.items() if isinstance(value, torch.Tensor))
        for name, value in own.items():
            yield from within(name, value, _DEPTH)
        if frame.f_globals is not frame.f_locals:
            for name in frame.f_code.co_names:
                if name in frame.f_globals:
                    yield from within(name, frame.f_globals[name], _DEPTH)

    def parameters(self) -> dict[int, str]:
        """Return the names of all parameters and other leaves that the user can write here, by their identity."""
        names: dict[int, str] = {}
        frame = self._frame
        bound = {**{name: frame.f_globals.get(name) for name in frame.f_code.co_names}, **frame.f_locals}
        written = [*bound.items(), *_held_by(bound)]
        for name, value in sorted(written, key=lambda item: not isinstance(item[1], torch.nn.Module)):
            if isinstance(value, torch.nn.Module) and _HELD[0] in value.__dict__:  # else its constructor is to run yet
                for path, parameter in value.named_parameters(name):
                    names.setdefault(id(parameter), _NUMBER.sub(r"[\1]", path))
            elif isinstance(value, torch.Tensor):
                names.setdefault(id(value), name)
        return names

    def _argument_text(self, tensor: torch.Tensor) -> str | None:
        expression = self.expression()
        if isinstance(expression, ast.Call) and self.inner:
            texts = {**dict(enumerate(expression.args)), **{k.arg: k.value for k in expression.keywords}}
            found = next((key for key, value in _arguments(self.inner[0]) if value is tensor), None)
            return ast.unparse(texts[found]) if found in texts else None
        return None

    def expression(self) -> ast.expr | None:
        """Return the expression that made the call; None before Python 3.11."""
        try:
            return ast.parse(f"({self.text})", mode="eval").body if self.text else None
        except SyntaxError:
            return None


def looked_up(node: ast.expr, frame: FrameType) -> Any:
    """Look a name, attribute or element up in a frame, without calling anything of the user's; None: there is none."""
    if isinstance(node, ast.Name):
        return locals_of(frame).get(node.id, frame.f_globals.get(node.id))
    if isinstance(node, ast.Attribute):
        owner: object = looked_up(node.value, frame)
        held: dict[str, Any] = getattr(owner, "__dict__", {})
        return held[node.attr] if node.attr in held else _method(type(owner), node.attr)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        whole, key = looked_up(node.value, frame), node.slice.value
        if type(whole) is dict:
            return cast("dict[object, object]", whole).get(key)
        if type(whole) in (list, tuple) and isinstance(key, int) and -len(whole) <= key < len(whole):
            return whole[key]
    return None


def _method(kind: type, name: str) -> Any:
    found = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
    return found if inspect.isfunction(found) else None


def locals_of(frame: FrameType) -> dict[str, object]:
    """Return the local names of a frame, so that the frame keeps no older values alive.

    Before Python 3.13 a frame remembers the dictionary that it was asked for; the user may hold it too.
    """
    seen: Any = frame.f_locals
    values = dict(seen)
    if type(seen) is dict and frame.f_code.co_flags & inspect.CO_OPTIMIZED and sys.getrefcount(seen) <= 3:
        seen.clear()
    return values


def call_here(run: Run) -> Call | None:
    """Return the call in which an operation was started; None in the autograd engine."""
    inner: list[FrameType] = []
    frame = run.lines.frame(2)
    if frame is None:
        return None
    below: FrameType | None = sys._getframe(1)
    while below is not None and below is not frame:
        if not _is_plumbing(below):
            inner.append(below)
        below = below.f_back
    return Call(run, Instruction(frame.f_code, frame.f_lasti), frame, inner[::-1])


def call_of_error(run: Run, error: BaseException) -> Call | None:
    """Return the call that an error came out of."""
    return next(iter(calls_of_error(run, error)), None)


def calls_of_error(run: Run, error: BaseException) -> list[Call]:
    """Return the user's calls that an error has left, the innermost first."""
    walked: list[tuple[FrameType, int]] = []
    trace = error.__traceback__
    while trace is not None:
        walked.append((trace.tb_frame, trace.tb_lasti))
        trace = trace.tb_next
    return _calls(run, walked)


def calls_around(run: Run) -> list[Call]:
    """Return the user's calls that are under way, the innermost first."""
    walked: list[tuple[FrameType, int]] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        walked.append((frame, frame.f_lasti))
        frame = frame.f_back
    return _calls(run, walked[::-1])


def _calls(run: Run, walked: list[tuple[FrameType, int]]) -> list[Call]:
    """Return the calls of the user's among frames, the innermost first; each with what it has called."""
    frames = [(frame, offset) for frame, offset in walked if not _is_plumbing(frame)]
    found: list[Call] = []
    for position, (frame, offset) in enumerate(frames):
        if run.lines.is_user(frame.f_code):
            inner = [frame for frame, _ in frames[position + 1 :]]
            found.append(Call(run, Instruction(frame.f_code, offset), frame, inner))
    return found[::-1]


def name_of(run: Run, tensor: torch.Tensor) -> str | None:
    """Return how the user calls a tensor at the line that runs now; None where it has no name there."""
    call = call_here(run)
    return call.name(tensor) if call else None


def binding_in(code: CodeType, name: str, lines: Lines, after: int = 0) -> Place | None:
    """Return the first line of a function, after a given one, that binds a name or an attribute."""
    path = code.co_filename
    source = lines.source(path)
    if source is None:
        return None
    last = max((line for _, line in dis.findlinestarts(code) if line), default=0)
    bind = re.compile(rf"(?:.*,)?\s*{re.escape(name)}\s*(?:[,:][^=]*)?=(?!=)")
    for line in range(max(after + 1, code.co_firstlineno), last + 1):
        text = source[line - 1]
        if bind.match(text):
            return Place(path, line, len(text) - len(text.lstrip()), line, len(text.rstrip()))
    return None


def tensors_in(name: str, value: object) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield a tensor, or those in a list or tuple, with how to write them."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, (list, tuple)):
        for position, item in enumerate(cast("list[object]", value)[:_ITEMS]):
            yield from tensors_in(f"{name}[{position}]", item)


_SAME = 3


def _likeness(value: torch.Tensor, tensor: torch.Tensor) -> int:
    """Return how surely a value is the wanted tensor: itself, the same values in the same or in another shape."""
    if value is tensor:
        return _SAME
    if not share_storage(value, tensor) or value.numel() != tensor.numel():
        return 0
    return 2 if value.shape == tensor.shape else 1


def within(name: str, value: object, depth: int = _DEPTH) -> Iterator[tuple[str, object]]:
    """Yield the tensors and modules that can be written from a name, down to so many attributes or elements."""
    if isinstance(value, torch.Tensor):
        yield name, value
        return
    if isinstance(value, torch.nn.Module):
        yield name, value
    if depth == 0 or isinstance(value, (ModuleType, type)):
        return
    for part, item in parts(value):
        yield from within(name + part, item, depth - 1)


def parts(value: object) -> Iterator[tuple[str, object]]:
    """Yield what can be written from a value with one attribute or one subscript."""
    if isinstance(value, torch.nn.Module):
        listed = isinstance(value, (torch.nn.Sequential, torch.nn.ModuleList))
        for held in _HELD:
            for key, item in value.__dict__.get(held, {}).items():  # its constructor may not have run yet
                yield f"[{key}]" if listed and key.isdigit() else f".{key}", item
    if isinstance(value, (list, tuple)):
        for position, item in enumerate(cast("list[object]", value)[:_ITEMS]):
            yield f"[{position}]", item
    elif isinstance(value, Mapping):
        for key, item in _entries(cast("Mapping[object, object]", value)):
            yield f"[{key!r}]", item
    elif type(value).__module__ != "builtins":
        for key, item in list(getattr(value, "__dict__", {}).items())[:_ITEMS]:
            if not key.startswith("_"):
                yield f".{key}", item


def _held_by(bound: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield what objects that are not torch's hold, with how to write it: ``self.model`` of a trainer."""
    for name, value in bound.items():
        ours = isinstance(value, (ModuleType, type, torch.nn.Module, torch.Tensor))
        if not ours and not type(value).__module__.startswith("torch."):
            yield from within(name, value, 2)


def _entries(mapping: Mapping[object, object]) -> list[tuple[object, object]]:
    try:
        return list(islice(mapping.items(), _ITEMS))
    except Exception:  # noqa: BLE001 - a mapping of the user's own may raise anything: values that are missing
        return []


def _arguments(frame: FrameType) -> Iterator[tuple[Any, object]]:
    """Yield what a function was called with, by position and by name; the receiver of a method left out."""
    code, values = frame.f_code, locals_of(frame)
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    names = names[1:] if names[:1] == ("self",) else names
    for position, name in enumerate(names):
        yield position, values.get(name)
        yield name, values.get(name)
    yield from enumerate(cast("tuple[object, ...]", values.get("args", ())))
    yield from cast("dict[str, object]", values.get("kwargs", {})).items()


def _is_plumbing(frame: FrameType) -> bool:
    """Say whether a frame is ours, or of the way from an operation to a dispatch mode."""
    return frame.f_globals.get("__name__", "").startswith(
        ("drygrad.worker", "torch._compile", "torch._dynamo", "torch._ops")
    )
