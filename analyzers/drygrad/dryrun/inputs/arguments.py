"""Arguments of a run, and how they meet the parameters of what is run."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from drygrad.model import Span
from drygrad.option_values import did_you_mean

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_TOLD = frozenset(("typer.Option", "typer.Argument", "Option", "Argument"))


@dataclass(frozen=True)
class Argument:
    """One argument as a text to evaluate.

    ``name`` is None for a positional one; ``star`` is ``*`` or ``**`` for one that is unpacked; ``line`` (from 1) and
    ``column`` (from 0, in code points) say where the text stands in the file, if it does.
    """

    name: str | None
    text: str
    source: str
    star: str = ""
    line: int | None = None
    column: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the argument as the plan's JSON has it."""
        return asdict(self)


@dataclass(frozen=True)
class Problem:
    """Why inputs cannot be used, and the place to look at."""

    message: str
    span: Span


def parameter_names(function: FunctionNode, receiver: str | None) -> list[str]:
    """Return the parameters that take a value each, without the receiver."""
    named = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return [p.arg for p in named if p.arg != receiver]


def defaults_of(function: FunctionNode) -> Mapping[str, ast.expr | None]:
    """Return the defaults of the parameters that may have one, by their names; None where there is none."""
    positional = [p.arg for p in (*function.args.posonlyargs, *function.args.args)]
    defaults = function.args.defaults
    found: dict[str, ast.expr | None] = dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=True))
    return found | {p.arg: d for p, d in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)}


def missing_parameters(function: FunctionNode, receiver: str | None, given: Sequence[Argument]) -> list[str]:
    """Return the parameters without a default that the arguments leave out; none where arguments are unpacked."""
    if any(argument.star for argument in given):
        return []
    positional = [p.arg for p in (*function.args.posonlyargs, *function.args.args)]
    optional = set(positional[len(positional) - len(function.args.defaults) :] if function.args.defaults else [])
    optional |= {p.arg for p, d in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True) if d}
    taken = {argument.name for argument in given}
    free = [name for name in positional if name != receiver]
    taken |= set(free[: sum(argument.name is None for argument in given)])
    return [name for name in parameter_names(function, receiver) if name not in taken | optional]


def unknown_argument(name: str, function: FunctionNode, receiver: str | None, known_as: str) -> str | None:
    """Return what is wrong with the name of an argument; None if the function takes it."""
    names = parameter_names(function, receiver)
    if name in names or function.args.kwarg:
        return None
    takes = f"its parameters are {listed(names)}" if names else "it takes none"
    return f"`{known_as}` has no parameter `{name}`{did_you_mean(name, names) or f'; {takes}'}"


def listed(names: Iterable[str]) -> str:
    """Return names for a sentence: x, y and z, each quoted."""
    *first, last = [f"`{name}`" for name in names]
    return f"{', '.join(first)} and {last}" if first else last


def told_defaults(function: FunctionNode) -> tuple[tuple[Argument, ...], tuple[str, ...]]:
    """Return the defaults that ``typer.Option(0.1)`` stands for, and the parameters that the command line must give."""
    positional = [*function.args.posonlyargs, *function.args.args]
    defaults = function.args.defaults
    pairs = [*zip(positional[len(positional) - len(defaults) :], defaults, strict=True)]
    pairs += [(p, d) for p, d in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True) if d is not None]
    found: list[Argument] = []
    missing: list[str] = []
    for parameter, default in pairs:
        if not isinstance(default, ast.Call) or ast.unparse(default.func) not in _TOLD:
            continue
        value = next(iter(default.args), None) or next((k.value for k in default.keywords if k.arg == "default"), None)
        if value is None or (isinstance(value, ast.Constant) and value.value is ...):
            missing.append(parameter.arg)
        else:
            found.append(Argument(parameter.arg, ast.unparse(value), "default"))
    return tuple(found), tuple(missing)
