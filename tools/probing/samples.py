"""Calls to try: the samples of torch's own database of operators, each argument under its name."""

# pyright: basic

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from probing.signatures import Signature

_WORD = re.compile(r"[a-z_-]+")
"""What a string is that chooses a mode."""
SAMPLES = 200
"""How many samples of each entry of the database are looked at."""
OF_A_FORM = 3
"""How many calls of one form are tried."""
_MODES = {"reduction": ("none", "mean", "sum")}
"""Modes that the database often leaves at their defaults."""


@dataclass
class Sample:
    """One call: the function, and its arguments in order and by name."""

    function: Callable[..., Any]
    arguments: list[Any]
    keywords: dict[str, Any]
    names: list[str]
    features: dict[str, str] = field(default_factory=dict[str, str])

    def operands(self) -> dict[str, torch.Tensor]:
        """Return the tensors by name; those of lists by name and position."""
        return dict(named_tensors(self.named()))

    def named(self) -> Iterator[tuple[str, Any]]:
        """Yield every argument under its name."""
        yield from zip(self.names, self.arguments, strict=True)
        yield from self.keywords.items()

    def changed(self, change: Callable[[str, Any], Any]) -> Sample:
        """Return the call with each tensor (and number) changed."""
        arguments = [deep(name, value, change) for name, value in zip(self.names, self.arguments, strict=True)]
        keywords = {name: deep(name, value, change) for name, value in self.keywords.items()}
        return Sample(self.function, arguments, keywords, self.names, self.features)

    def run(self) -> Any:
        """Make the call, always with the same random numbers."""
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.function(*self.arguments, **self.keywords)


def deep(name: str, value: Any, change: Callable[[str, Any], Any]) -> Any:
    """Change a value, or what a list or tuple holds."""
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return type(value)([deep(f"{name}.{index}", item, change) for index, item in enumerate(value)])
    return change(name, value)


def named_tensors(named: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield tensors by name, those in lists included."""
    for name, value in named:
        if isinstance(value, torch.Tensor):
            yield name, value
        elif isinstance(value, (list, tuple)):
            yield from named_tensors((f"{name}.{index}", item) for index, item in enumerate(value))


def base_dtypes(entry: Any) -> list[torch.dtype]:
    """Return the dtypes that an entry's samples are made in: what it is mostly used with."""
    usual = (torch.float32, torch.int64, torch.bool, torch.complex64)
    return [dtype for dtype in usual if dtype in entry.dtypes][:2]


def samples_of(entry: Any, function: Callable[..., Any], signature: Signature, dtype: torch.dtype) -> Iterator[Sample]:
    """Yield calls of different forms: what the database suggests, in other modes, with numbers for tensors."""
    torch.manual_seed(0)
    given = entry.sample_inputs("cpu", dtype, requires_grad=False)
    forms: Counter[str] = Counter()
    for _ in range(SAMPLES):
        try:
            raw = next(given)
        except (StopIteration, Exception):  # noqa: BLE001 - some samples need what this machine lacks
            return
        called = _as_called(entry, function, [raw.input, *raw.args], dict(raw.kwargs))
        if called is None or any(t.layout != torch.strided for _, t in named_tensors(enumerate_names(called[0]))):
            continue
        sample = bound(function, *called, signature)
        for each in (sample, *_in_other_modes(sample, signature), *_with_numbers(sample, signature)):
            form = repr(sorted((name, kind) for name, kind in each.features.items() if name[0] != "#"))
            forms[form] += 1
            if forms[form] <= OF_A_FORM:
                yield each


class _First(TorchFunctionMode):
    """Notes the first call of a torch function and its arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.call: tuple[Any, list[Any], dict[str, Any]] | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.call is None and getattr(func, "__name__", "") != "__get__":
            self.call = (func, list(args), dict(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _as_called(
    entry: Any, function: Callable[..., Any], arguments: list[Any], keywords: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]] | None:
    """Return the arguments as the function takes them: some entries put them into another order."""
    if entry.op is function or not isinstance(entry.op, FunctionType):
        return arguments, keywords
    with _First() as first:
        try:
            entry.op(*arguments, **keywords)
        except Exception:  # noqa: BLE001 - whatever torch refuses tells nothing
            return None
    if first.call is None or getattr(first.call[0], "__name__", "") != getattr(function, "__name__", None):
        return None
    return first.call[1:]


def _in_other_modes(sample: Sample, signature: Signature) -> Iterator[Sample]:
    """Yield the call with one switch or mode changed that it leaves as it is by default."""
    given = dict(sample.named())
    for name, default in signature.defaults.items():
        if name not in given and name != "inplace":
            for mode in (not default,) if isinstance(default, bool) else _MODES.get(name, ()):
                yield bound(sample.function, sample.arguments, {**sample.keywords, name: mode}, signature)


def _with_numbers(sample: Sample, signature: Signature) -> Iterator[Sample]:
    """Yield the call with a number for one of its tensors."""
    arguments = sample.arguments
    places = [index for index, value in enumerate(arguments) if isinstance(value, torch.Tensor)]
    for index in places if len(places) > 1 else []:
        for number in (2, 2.5):
            changed = [number if at == index else value for at, value in enumerate(arguments)]
            yield bound(sample.function, changed, sample.keywords, signature)


def enumerate_names(arguments: list[Any]) -> Iterator[tuple[str, Any]]:
    """Yield arguments under their positions."""
    return ((str(index), value) for index, value in enumerate(arguments))


def bound(function: Callable[..., Any], arguments: list[Any], keywords: dict[str, Any], signature: Signature) -> Sample:
    """Name the arguments of a call, and describe its form."""
    names = [signature.at(index) for index in range(len(arguments))]
    sample = Sample(function, arguments, dict(keywords), names)
    sample.features = features(sample, signature)
    return sample


def features(sample: Sample, signature: Signature) -> dict[str, str]:
    """Return what tells the forms of a call apart: the kind of each argument."""
    found = {signature.canonical(name): kind(value) for name, value in signature.defaults.items()}
    for name, value in sample.named():
        place = signature.canonical(name)
        found[place] = kind(value)
        if isinstance(value, torch.Tensor):
            found[f"#{place}"] = str(value.ndim)
    return found


def kind(value: Any) -> str:
    """Return the kind of an argument as `drygrad.torchmodel.record` writes it."""
    if value is None:
        return "-"
    if isinstance(value, torch.Tensor):
        return "T"
    if isinstance(value, bool) or (isinstance(value, str) and _WORD.fullmatch(value)):
        return repr(value)
    if isinstance(value, (int, float, complex)):
        return "N"
    if isinstance(value, torch.dtype):
        return "D"
    if isinstance(value, (list, tuple)):
        return "L" if any(isinstance(item, torch.Tensor) for item in value) else "S"
    return "O"
