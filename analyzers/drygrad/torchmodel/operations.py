"""All operations and modules of torch, read when the first is asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from drygrad.torchmodel.record import Op, Row

_GENERATED = Path(__file__).with_name("generated")
_PACKAGES = ("", "nn.functional.", "linalg.", "special.", "fft.")


def named(target: str) -> Op | None:
    """Return the operation that a full name calls: ``torch.nn.functional.relu``, ``Tensor.relu``, or just ``relu``."""
    name = target.removeprefix("torch.").removeprefix("Tensor.")
    return _operation(name)


@cache
def _operation(name: str) -> Op | None:
    rows: Mapping[str, Row] = _read("operations")
    names: Mapping[str, str] = _read("aliases")
    key = name if name in rows else names.get(name, name)
    if key not in rows and "." not in name:
        key = next((package + name for package in _PACKAGES if package + name in rows), name)
    row = rows.get(key)
    return None if row is None else Op(key, tuple(map(_overload, row.get("signature", []))), row)


def _overload(names: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if "*" not in names:
        return tuple(names), ()
    bar = names.index("*")
    return tuple(names[:bar]), tuple(names[bar + 1 :])


@cache
def _read(name: str) -> Any:
    return json.loads((_GENERATED / f"{name}.json").read_text(encoding="utf-8"))


def removed_functions() -> Mapping[str, str]:
    """Return what torch only names to say that it is gone, in its own words."""
    return _read("gone")


def names_of(package: str) -> frozenset[str] | None:
    """Return the names and modules of one of torch's packages; None where they are not known."""
    return _names().get(package)


@cache
def _names() -> Mapping[str, frozenset[str]]:
    return {package: frozenset(names) for package, names in _read("names").items()}


@cache
def keywords_of(name: str) -> frozenset[str] | None:
    """Return the keywords that a function or class takes, by its public name; None where it may take others.

    Schedulers may be named as the facts name them: ``torch.optim.StepLR``.
    """
    taken: Mapping[str, list[str]] = _read("keywords")
    found = taken.get(name, taken.get(name.replace("torch.optim.", "torch.optim.lr_scheduler.")))
    return frozenset(found) if found is not None else None


@cache
def torch_version() -> str:
    """Return the version of torch that all of this was asked of: ``2.13``."""
    return ".".join(_read("made_of")["torch"].split(".")[:2])
