"""The JSON Schema of the settings takes what drygrad takes, and refuses what it refuses."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from drygrad.options import OPTIONS, validate

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
SCHEMA: dict[str, Any] = json.loads((ROOT / "docs" / "settings.schema.json").read_text(encoding="utf-8"))
CHECKED: Any = jsonschema.Draft7Validator(SCHEMA)


def test_it_is_a_schema_with_every_setting() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert set(SCHEMA["properties"]) == {option.name for option in OPTIONS if option.stands_in("file")} | {"run"}
    run = SCHEMA["properties"]["run"]["properties"]
    assert set(run) == {option.name for option in OPTIONS if option.stands_in("run")}
    for name, described in (SCHEMA["properties"] | run).items():
        assert described["description"], name
        if "default" in described:
            jsonschema.validate(described["default"], described)


def test_the_examples_and_our_own_settings_pass() -> None:
    examples = "\n".join(option.example for option in OPTIONS if option.stands_in("file"))
    own = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["drygrad"]
    for given in (tomllib.loads(examples), own):
        CHECKED.validate(given)


@pytest.mark.parametrize(
    "text",
    [
        'selct = ["DG1"]',
        'select = "DG1"',
        'severity = { DG1 = "fatal" }',
        'target-torch = "two"',
        "experiments = 3",
        "[run]\ntimeout = 0",
        '[run]\ndevice = "tpu"',
        "[run]\nlaunches = { a = 1 }",
        "[run]\ndebounce = 3",
    ],
)
def test_what_drygrad_refuses_is_refused(text: str) -> None:
    given: dict[str, Any] = tomllib.loads(text)
    run: dict[str, Any] = given.pop("run", {})
    assert validate(given, "file").complaints or validate(run, "run").complaints
    assert not CHECKED.is_valid(tomllib.loads(text))
