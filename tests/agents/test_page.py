"""What docs/agents.md says can be followed."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from drygrad.agents.tools import TOOLS
from drygrad.cli.arguments import parsed

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "agents.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_table_has_every_tool_and_what_it_takes() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \| .* \|$", PAGE, re.MULTILINE))
    assert list(rows) == [tool.name for tool in TOOLS]
    for tool in TOOLS:
        said = {word for word in re.findall(r"`(\w+)`", rows[tool.name]) if word != "run" or tool.name == "fix"}
        taken = set(tool.inputs["properties"])
        assert said <= taken
        assert said == taken or tool.name in ("experiments", "fix"), "what is told of `run` already is not told again"


def test_the_calls_are_of_tools_that_take_them() -> None:
    calls = [json.loads(block) for block in blocks("json") if block.startswith('{"name"')]
    tools = {tool.name: tool for tool in TOOLS}
    assert len(calls) == 2
    for call in calls:
        assert set(call["arguments"]) <= set(tools[call["name"]].inputs["properties"])


def command_of(data: dict[str, Any]) -> list[str]:
    """Return the one command of a client's settings."""
    while "command" not in data:
        (data,) = data.values()
    return [data["command"], *data["args"]]


@pytest.mark.parametrize("block", [b for b in blocks("json") if not b.startswith('{"name"')] + blocks("toml"))
def test_the_configurations_start_the_server(block: str) -> None:
    command = command_of(json.loads(block) if block.startswith("{") else tomllib.loads(block))
    arguments = parsed(command[1:])
    assert (command[0], arguments.command, arguments.trust) == ("drygrad", "mcp", True)


def test_the_commands_of_the_shell_are_ours() -> None:
    lines = [line.partition("#")[0] for block in blocks("console") for line in block.splitlines()]
    ours = [shlex.split(line.partition("-- ")[2] or line) for line in lines if "drygrad mcp" in line]
    assert len(ours) == 3
    assert all(parsed(words[1:]).command == "mcp" for words in ours)
