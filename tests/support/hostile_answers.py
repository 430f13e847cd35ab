"""Answers of runs as a real worker has given them, and thousands of ways to break them."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

MARK = "hostile"
"""A name that no program has, in everything that a broken answer would have executed."""

LONG = "9" * 400
"""A number that no field has room for; JSON is written around it as text."""

_VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1, 3.5, -(1 << 70), 1 << 62, 1e308, -1e308, "", " ", "x", "\ud800", "\udcff", "\0"),
    *([], {}, [[]], [{}], {"": 0}, [None], {"path": None}, [1, "2", 3.0], "a" * 100_000, ["n" * 1000] * 1000),
    *("1e400", "NaN", "inf", "-inf", "float32", "int64", "cuda:0", "cuda:1000", "DG101", "DG999", "error", "passed"),
    *(f"float32 if {MARK} else x", f"__import__('os').system('{MARK}')", f"x # {MARK}", f"x\n{MARK}()", f"x)+({MARK}"),
    *(f"'''\n{MARK}()\n'''", f"x\u2028{MARK}()", f"x\r{MARK}()", f"x.{MARK}", f"{MARK}", f"\x1b]0;{MARK}\x07"),
    *("/etc/passwd", "../../etc", "/project/program.py", ["/etc/passwd", "\ud800"], [[[[[[[[[[]]]]]]]]]]),
]
_PIECES = [
    *("NaN", "Infinity", "-Infinity", "1e999", LONG, "[" * 2000, "{", "}", "]", '"', "\\", "\\u", "\\ud800", ","),
    *('"outcome": "passed",', '{"a": 1, "a": 2}', "\x00", "\n", "null", "-", "0x10", "'", "\ufffe"),
]


class Answer(NamedTuple):
    """What a run of a program has answered."""

    text: str
    target: str
    answer: dict[str, Any]


def recorded() -> dict[str, Answer]:
    """Return real answers by the name of their program, which stands in ``/project/program.py``."""
    path = Path(__file__).parents[1] / "data" / "answers.json"
    return {name: Answer(**entry) for name, entry in json.loads(path.read_text(encoding="utf-8")).items()}


def broken(answer: dict[str, Any], chance: random.Random) -> str:
    """Return the text of an answer with a few things changed in it, or in its JSON."""
    changed = copy.deepcopy(answer)
    for _ in range(chance.choice((1, 1, 2, 5))):
        _change(changed, chance)
    text = json.dumps(changed)
    return _torn(text, chance) if chance.random() < 0.3 else text


def _change(answer: dict[str, Any], chance: random.Random) -> None:
    """Change one value, or a field, of an answer in its place."""
    holder = chance.choice([*_holders(answer)])
    if isinstance(holder, list):
        if holder and chance.random() < 0.7:
            holder[chance.randrange(len(holder))] = _value(chance)
        else:
            holder.append(_value(chance))
        return
    names = [*holder]
    what = chance.random()
    if what < 0.7 and names:
        holder[chance.choice(names)] = _value(chance)
    elif what < 0.85 and names:
        del holder[chance.choice(names)]
    elif names:
        holder[chance.choice((*names, "wanted", "inputs", "new", "__class__"))] = _value(chance)


def _value(chance: random.Random) -> Any:
    return copy.deepcopy(chance.choice(_VALUES))


def _holders(value: object) -> Iterator[dict[str, Any] | list[Any]]:
    if isinstance(value, dict):
        yield (fields := cast("dict[str, Any]", value))
        for item in fields.values():
            yield from _holders(item)
    elif isinstance(value, list):
        yield (items := cast("list[Any]", value))
        for item in items:
            yield from _holders(item)


def _torn(text: str, chance: random.Random) -> str:
    start = chance.randrange(len(text))
    end = min(len(text), start + chance.choice((0, 0, 1, 10, len(text))))
    return text[:start] + chance.choice(_PIECES) + text[end:]


DREADFUL = [
    "",
    "null",
    "7",
    '"text"',
    "[]",
    "{}",
    '{"outcome": null}',
    '{"outcome": ["passed"]}',
    '{"outcome": "passed", "outcome": "failed"}',
    f'{{"outcome": "passed", "seconds": {LONG}}}',
    f'{{"outcome": "passed", "seconds": 1{"0" * 5000}}}',
    '{"outcome": "passed", "seconds": NaN}',
    '{"outcome": "passed", "seconds": 1e999}',
    '{"outcome": "passed", "seconds": -1}',
    f'{{"outcome": "passed", "blocks": [{LONG}]}}',
    "[" * 200_000,
    '{"a":' * 200_000,
    '{"outcome": "passed", "faults": {}}',
    '{"outcome": "passed", "faults": [[]]}',
    '{"outcome": "passed", "faults": [{"code": "DG999", "message": "m", "at": null}]}',
    '{"outcome": "passed", "faults": [{"code": "DG101", "message": "m", "at": {"path": "x", "line": -5}}]}',
    '{"outcome": "passed", "faults": [{"code": "DG101", "message": "m", "at": {"path": "\\ud800", "line": 1}}]}',
    '{"outcome": "passed", "faults": [{"code": "DG101\\n::error::x", "message": "m", "at": null}]}',
    '{"outcome": "passed", "shapes": [{"line": 1, "shape": [' + LONG + "]}]}",
    '{"outcome": "passed", "memory": {"peak_bytes": -1}}',
    '{"outcome": "passed", "unheard": 1}',
    '{"outcome": "passed", "notes": "all is well"}',
    '{"outcome": "passed", "notes": [' + '"' + "n" * 3_000_000 + "\x01" + '"]}',
]
"""Answers each of which has once ended, or would end, the process that reads it, or is plainly none."""
