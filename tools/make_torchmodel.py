"""Ask the installed torch what it is, and write it down for analyzers that never import it.

``python tools/make_torchmodel.py`` writes ``analyzers/drygrad/torchmodel/generated``, in a few minutes.
"""

# pyright: basic

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from probing import dtypes, shapes
from probing.deciding import Observation, decide
from probing.further import FURTHER
from probing.keeping import Seen
from probing.keywords import keywords
from probing.modules import modules
from probing.names import names
from probing.refusing import refused
from probing.removed import going, gone
from probing.samples import Sample, base_dtypes, kind, samples_of
from probing.signatures import Signature, returns_of, signature_of
from probing.spellings import aliases, public
from torch.testing._internal.common_methods_invocations import op_db

ROOT = Path(__file__).resolve().parents[1]
GENERATED = ROOT / "analyzers" / "drygrad" / "torchmodel" / "generated"
_NOT_PUBLIC = ("_", "jiterator", "ops.", "torch.", "masked.", "signal.", "sparse.")
_SEVERAL_OPERATIONS = ("nn.functional.multi_head_attention_forward",)
"""Functions that go different ways by which of their operands are the same."""


def main() -> int:
    """Write everything, or print the rows of some operations."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)  # the operands are tiny: a second thread only waits
    chosen = sys.argv[1:]
    entries = _grouped(chosen)
    rows = operations(entries)
    if chosen:
        print(_text(rows))
        return 0
    _write("operations", rows)
    _write("aliases", aliases(entries))
    _write("modules", modules())
    _write("gone", gone())
    _write("going", going())
    _write("names", names())
    _write("keywords", keywords())
    _write("made_of", made_of())
    return 0


def made_of() -> dict[str, str]:
    """Return what the data was made by: when it differs, the data is stale."""
    tools = [Path(__file__), *sorted((Path(__file__).parent / "probing").glob("*.py"))]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in tools)).hexdigest()
    return {"tools": digest, "torch": torch.__version__.partition("+")[0]}


def _write(name: str, rows: dict[str, Any]) -> None:
    (GENERATED / f"{name}.json").write_text(_text(rows), encoding="utf-8")


def _text(rows: dict[str, Any]) -> str:
    lines = [f"{json.dumps(name)}: {json.dumps(row, separators=(',', ':'))}" for name, row in sorted(rows.items())]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def operations(grouped: dict[str, list[Any]]) -> dict[str, Any]:
    """Return a row for each operation of the database."""
    rows: dict[str, Any] = {}
    for name, entries in grouped.items():
        function = public(name)
        if function is not None:
            rows[name] = _row(name, function, entries)
    return rows


def _grouped(chosen: list[str]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for entry in [*op_db, *FURTHER]:
        public = not entry.name.startswith(_NOT_PUBLIC) or entry.name.startswith("__r")
        public = public and entry.name not in _SEVERAL_OPERATIONS
        if public and (not chosen or entry.name in chosen):
            found.setdefault(entry.name, []).append(entry)
    return found


def _row(name: str, function: Callable[..., Any], entries: list[Any]) -> dict[str, Any]:
    signature = signature_of(name, function)
    returns = returns_of(name)
    seen, in_place = Seen(), Seen()
    made: dict[str, list[Observation]] = {"shape": [], "out": [], "refuses": []}
    for entry in entries:
        inside = _in_place(name, function, entry, signature)
        for base in base_dtypes(entry):
            for sample in samples_of(entry, function, signature, base):
                _look(sample, base, seen, made, returns)
                if inside is not None and base == torch.float32:
                    in_place.look(_as(sample, inside))
    row: dict[str, Any] = {
        "signature": [[*names, *(["*", *keywords] if keywords else [])] for names, keywords in signature.overloads],
        **{what: decide(observations) for what, observations in made.items()},
        **seen.rows(),
        **{f"{what}_": said for what, said in in_place.rows().items() if what != "view"},
    }
    modes = {signature.canonical(name): kind(value) for name, value in signature.defaults.items()}
    row["kinds"] = _kinds([features for features, _ in made["out"]])
    text = json.dumps(list(row.values()))
    row["defaults"] = {name: value for name, value in modes.items() if json.dumps(name) in text}
    return {key: value for key, value in row.items() if value not in (None, {}, [])}


def _kinds(forms: list[dict[str, str]]) -> dict[str, str]:
    """Return of which kinds each argument was, those left out aside; a call of another kind was not tried."""
    found: dict[str, set[str]] = {}
    for form in forms:
        for name, each in form.items():
            if name[0] != "#":
                found.setdefault(name, set()).add(each)
    return {name: " ".join(sorted(kinds - {"-"})) for name, kinds in sorted(found.items())}


def _in_place(name: str, function: Callable[..., Any], entry: Any, signature: Signature) -> Callable[..., Any] | None:
    """Return the form that overwrites its first operand."""
    if entry.inplace_variant is not None:
        return entry.inplace_variant
    if "inplace" in signature.positional:
        return partial(function, inplace=True)
    return None if "." in name else getattr(torch.Tensor, f"{name}_", None)


def _look(
    sample: Sample, base: torch.dtype, seen: Seen, made: dict[str, list[Observation]], returns: frozenset[int]
) -> None:
    shape, structure = shapes.observe(sample, returns)
    if structure[1] == ("refused",):
        return
    made["out"].append(structure)
    if shape is not None:
        made["shape"].append(shape)
    for index, seen_dtype in dtypes.observe(sample, base):
        made.setdefault(f"dtype{index}", []).append(seen_dtype)
    refusal = refused(sample) if base == torch.float32 else None
    if refusal is not None:
        made["refuses"].append(refusal)
    if base in (torch.float32, torch.complex64):
        seen.look(sample)
        seen.memory(sample)


def _as(sample: Sample, function: Callable[..., Any]) -> Sample:
    changed = Sample(function, sample.arguments, sample.keywords, sample.names)
    changed.features = sample.features
    return changed


if __name__ == "__main__":
    sys.exit(main())
