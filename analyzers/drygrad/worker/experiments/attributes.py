"""What modules keep beside their state: attributes that no ``state_dict`` has, with the values in them."""

from __future__ import annotations

import copy
import dis
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType, MethodType, ModuleType
from typing import Any, cast

import torch

from drygrad.worker.experiments.relation import NotTried
from drygrad.worker.experiments.trace import agree, memory_of
from drygrad.worker.lines import Lines
from drygrad.worker.naming import binding_in
from drygrad.worker.reading import at_hand, is_readable, quietly
from drygrad.worker.run import Place

_TORCHS = frozenset(vars(torch.nn.Module()))
_DEPTH, _MOST, _ITEMS = 4, 2_000, 64
_CLOSED = (str, bytes, type, ModuleType, FunctionType, MethodType, torch.optim.Optimizer)


@dataclass(frozen=True)
class Attribute:
    """An attribute of a module's part: what it holds, by how one gets there; tensors and layers, arrays and numbers."""

    part: str
    name: str
    leaves: dict[str, Any]
    unsaved: bool = False
    """It is a buffer of which the program says that no state has it."""

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from others."""
        return self.part, self.name

    @property
    def layers(self) -> list[torch.nn.Module]:
        """The modules with parameters that nobody knows to be parts."""
        return [v for v in self.leaves.values() if isinstance(v, torch.nn.Module)]

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors that are held directly."""
        return [value for value in self.leaves.values() if isinstance(value, torch.Tensor)]

    @property
    def may_differ(self) -> bool:
        """Whether there is what two constructions, seeded otherwise, may make different; numbers hardly are."""
        return any(not isinstance(value, (bool, int, float)) for value in self.leaves.values())

    def like(self, other: Attribute | None) -> bool:
        """Say whether another one holds the same."""
        if other is None or self.leaves.keys() != other.leaves.keys():
            return False
        return all(_equal(value, other.leaves[path]) for path, value in self.leaves.items())

    def kept(self) -> Attribute:
        """Return it with copies of what it holds, for what it holds may change."""
        with quietly():
            leaves = {path: _copied(value) for path, value in self.leaves.items()}
            return Attribute(self.part, self.name, leaves, self.unsaved)


def attributes(module: torch.nn.Module, lines: Lines) -> dict[tuple[str, str], Attribute]:
    """Return the attributes of a module's parts, of classes of the user's, that hold something beside the state."""
    known: set[int] = {id(part) for part in module.modules()}
    states = _saved(module)
    known |= {id(tensor) for tensor in states} | {memory_of(tensor) for tensor in states if is_readable(tensor)}
    found: dict[tuple[str, str], Attribute] = {}
    for part, held in cast("Iterator[tuple[str, torch.nn.Module]]", module.named_modules()):
        if not is_users(type(held), lines):
            continue
        unsaved = {name: vars(held)["_buffers"][name] for name in _unsaved(held)}
        own = {name: value for name, value in vars(held).items() if name not in _TORCHS}
        for name, value in (*unsaved.items(), *own.items()):
            leaves = dict(_Walk({*known}).below("", value, _DEPTH))
            if leaves:
                found[part, name] = Attribute(part, name, leaves, name in unsaved)
    return found


def _saved(module: torch.nn.Module) -> list[torch.Tensor]:
    """Return the parameters and buffers that the state of a module has."""
    found: list[torch.Tensor] = [*torch.nn.Module.parameters(module)]
    for part in module.modules():
        found += [held for name, held in part.named_buffers(recurse=False) if name not in _unsaved(part)]
    return found


def _unsaved(part: torch.nn.Module) -> set[str]:
    return {name for name in getattr(part, "_non_persistent_buffers_set", ()) if name in vars(part)["_buffers"]}


def is_users(kind: type, lines: Lines) -> bool:
    """Say whether a class, or one that it derives from, stands in a file of the user's."""
    return any(True for _ in _methods(kind, lines))


def put(one: torch.nn.Module, other: torch.nn.Module, attribute: Attribute) -> None:
    """Give a module the attribute that another of its kind has. Raises NotTried where it cannot be copied."""
    memo: dict[int, Any] = {}
    for mine, theirs in zip(other.modules(), one.modules()):
        memo[id(mine)] = theirs
    for mine, theirs in zip(_saved(other), _saved(one)):
        memo[id(mine)] = theirs
    try:
        value = copy.deepcopy(holder(other, attribute)[attribute.name], memo)
    except Exception as error:
        raise NotTried(f"`{attribute.name}` cannot be copied: {type(error).__name__}") from error
    holder(one, attribute)[attribute.name] = value


def holder(module: torch.nn.Module, attribute: Attribute) -> dict[str, Any]:
    """Return where a module has an attribute."""
    part = module.get_submodule(attribute.part)
    return vars(part)["_buffers"] if attribute.unsaved else vars(part)


def bound_at(kind: type, name: str, lines: Lines, *, late: bool = False) -> Place | None:
    """Return the line that binds or registers an attribute, in a constructor first; ``late``: in any other method."""
    methods = [method for method in _methods(kind, lines) if not late or method.__name__ != "__init__"]
    methods.sort(key=lambda method: method.__name__ != "__init__")
    for method in methods:
        code = method.__code__
        receiver = code.co_varnames[0] if code.co_argcount else ""
        place = binding_in(code, f"{receiver}.{name}", lines) or _registration_in(method, name, lines)
        if place is not None:
            return place
    return None


def _registration_in(method: FunctionType, name: str, lines: Lines) -> Place | None:
    code = method.__code__
    source = lines.source(code.co_filename) or []
    last = max((line for _, line in dis.findlinestarts(code) if line), default=0)
    call = re.compile(rf"\.(?:register_\w+|add_module)\(\s*['\"]{re.escape(name)}['\"]")
    for line in range(code.co_firstlineno, min(last, len(source)) + 1):
        if call.search(source[line - 1]):
            text = source[line - 1]
            return Place(code.co_filename, line, len(text) - len(text.lstrip()), line, len(text.rstrip()))
    return None


def _methods(kind: type, lines: Lines) -> Iterator[FunctionType]:
    for base in kind.__mro__:
        for value in vars(base).values():
            if isinstance(value, FunctionType) and lines.is_user(value.__code__):
                yield value


class _Walk:
    """Goes through what an attribute holds, once through each object."""

    def __init__(self, seen: set[int]) -> None:
        self._seen = seen
        self._count = 0

    def below(self, path: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
        """Yield the values that count, with how one gets there."""
        if isinstance(value, (bool, int, float)):
            yield path, value
            return
        self._count += 1
        if value is None or isinstance(value, _CLOSED) or id(value) in self._seen or self._count > _MOST:
            return
        self._seen.add(id(value))
        if isinstance(value, torch.Tensor):
            if is_readable(value) and memory_of(value) not in self._seen:
                yield path, value
        elif isinstance(value, torch.nn.Module):
            if any(id(p) not in self._seen for p in (*torch.nn.Module.parameters(value), *value.buffers())):
                yield path, value
        elif type(value).__module__ == "numpy" and hasattr(value, "tobytes"):
            yield path, value
        elif depth:
            for step, item in _parts(value):
                yield from self.below(path + step, item, depth - 1)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        items = list(cast("Mapping[Any, Any]", value).items())
        yield from ((f"[{key!r}]", item) for key, item in items[:_ITEMS] if isinstance(key, (str, int)))
    elif isinstance(value, (list, tuple)):
        yield from ((f"[{i}]", item) for i, item in enumerate(cast("list[Any]", value)[:_ITEMS]))
    elif not type(value).__module__.startswith(("torch.", "builtins", "collections")):
        yield from ((f".{name}", item) for name, item in list(getattr(value, "__dict__", {}).items())[:_ITEMS])


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return at_hand(value).detach().clone()
    if isinstance(value, torch.nn.Module):
        return [
            _copied(tensor) for tensor in (*torch.nn.Module.parameters(value), *value.buffers()) if is_readable(tensor)
        ]
    return value.tobytes() if type(value).__module__ == "numpy" else value


def _equal(one: Any, other: Any) -> bool:
    with quietly():
        one, other = (_copied(value) for value in (one, other))
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return agree(one, other)
    if isinstance(one, list):
        mine, theirs = cast("list[torch.Tensor]", one), cast("list[torch.Tensor]", other)
        return len(mine) == len(theirs) and all(map(agree, mine, theirs))
    return one == other or (isinstance(one, float) and math.isnan(one))
