"""The tools for coding agents, as the SDK's own client calls them; the server runs in this process."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine
from pathlib import Path
from typing import Any

import jsonschema
import mcp_types as types
import pytest
from mcp import Client

from drygrad.agents import work
from drygrad.agents.server import Session
from drygrad.cli.arguments import parser
from drygrad.cli.errors import Failure

PROGRAM = """\
import time
from pathlib import Path

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.head = nn.Linear(8, classes)

    def forward(self, x):
        return self.head(x)


def loss(model, x, target):
    return nn.functional.cross_entropy(model(x), target)


def overwrites():
    features = torch.ones(2, 4, requires_grad=True)
    weights = torch.exp(features)
    weights.clamp_(max=10.0)
    weights.sum().backward()


def endless(flag):
    Path(flag).exists()
    print("sleeping", flush=True)
    time.sleep(600)
"""


Test = Callable[["Agent"], Coroutine[Any, Any, None]]


class Agent:
    """A client and the server that it talks to."""

    def __init__(self, client: Client, folder: Path) -> None:
        self._client = client
        self.folder = folder
        self.progress: list[tuple[float, float | None, str | None]] = []

    async def __call__(self, tool: str, **arguments: Any) -> types.CallToolResult:
        async def heard(progress: float, total: float | None, message: str | None) -> None:
            self.progress.append((progress, total, message))

        return await self._client.call_tool(tool, arguments, progress_callback=heard)

    @property
    def messages(self) -> list[str]:
        return [message or "" for _, _, message in self.progress]

    async def refused(self, tool: str, **arguments: Any) -> str:
        answer = await self(tool, **arguments)
        assert answer.is_error, words(answer)
        assert answer.structured_content is None
        return words(answer)

    async def tools(self) -> dict[str, types.Tool]:
        return {tool.name: tool for tool in (await self._client.list_tools()).tools}


def words(answer: types.CallToolResult) -> str:
    (content,) = answer.content
    assert isinstance(content, types.TextContent)
    return content.text


def arguments_of(*given: str) -> argparse.Namespace:
    return parser().parse_args(["mcp", "--python", sys.executable, *given])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'tried'\n")
    (tmp_path / "train.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextlib.asynccontextmanager
async def talking(*given: str, **of_the_client: Any) -> AsyncGenerator[Agent]:
    """Connect a client to a server of the working folder."""
    session = Session(arguments_of(*given))
    try:
        async with Client(session.server(), **of_the_client) as client:
            yield Agent(client, Path.cwd())
    finally:
        await session.close()


def in_session(*given: str) -> Callable[[Test], Callable[..., Coroutine[Any, Any, None]]]:
    """Give a test an agent; fixtures would connect it in another task than they disconnect it."""

    def decorated(test: Test) -> Callable[..., Coroutine[Any, Any, None]]:
        async def tested(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
            monkeypatch.setattr(work, "parallel_runs", lambda: 1)
            async with talking(*given) as agent:
                await test(agent)

        tested.__name__ = tested.__qualname__ = test.__name__
        tested.__doc__ = test.__doc__
        return tested

    return decorated


@in_session()
async def test_the_tools_say_what_they_take_and_whether_they_write(reader: Agent) -> None:
    tools = await reader.tools()
    assert list(tools) == ["check", "run", "experiments", "fix", "forecast", "explain"]
    writing = [name for name, tool in tools.items() if tool.annotations and not tool.annotations.read_only_hint]
    assert writing == ["fix"]
    for tool in tools.values():
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        assert tool.output_schema
        jsonschema.Draft202012Validator.check_schema(tool.output_schema)


@in_session()
async def test_a_check_answers_in_words_and_in_the_json_of_the_command_line(reader: Agent) -> None:
    answer = await reader("check", path="train.py")
    assert "train.py:24:5: warning[DG101]: " in words(answer)
    assert "fix (safe): " in words(answer)
    assert words(answer).splitlines()[-1].startswith("Found 1 warning in 1 file")
    (finding,) = answer.structured_content["findings"]
    assert (finding["code"], finding["path"], finding["start"]) == ("DG101", "train.py", {"line": 24, "column": 5})
    assert answer.structured_content["left_out"] == 0


@in_session("--trust")
async def test_what_runs_shares_a_worker_that_stays_warm(agent: Agent) -> None:
    await finds_with_inputs_what_no_text_shows(agent)
    assert any("starting the worker" in message for message in agent.messages)
    agent.progress.clear()
    await fixes_what_was_tried_and_writes_where_it_is_told_to(agent)
    await tells_what_held_and_what_was_not_tried(agent)
    assert not any("starting the worker" in message for message in agent.messages)
    await forecasts_what_it_takes(agent)


async def finds_with_inputs_what_no_text_shows(agent: Agent) -> None:
    given = "model=Net(5), x=torch.randn(2, 8), target=torch.tensor([1, 5])"
    answer = await agent("run", target="train.py::loss", inputs=given, device="sim")
    assert "error[DG302]: " in words(answer)
    assert "train.py::loss: failed on " in words(answer)
    (run,) = answer.structured_content["runs"]
    assert (run["outcome"], run["target"]) == ("failed", "train.py::loss")
    told = [progress for progress, _, _ in agent.progress]
    assert told == sorted(set(told)), "each number is greater than the last"
    assert any("train.py::loss" in message for message in agent.messages)


async def fixes_what_was_tried_and_writes_where_it_is_told_to(agent: Agent) -> None:
    answer = await agent("fix", target="train.py::overwrites", device="cpu")
    assert "+    weights = weights.clamp(max=10.0)" in answer.structured_content["diff"]
    assert "+    weights = weights.clamp(max=10.0)" in words(answer)
    assert answer.structured_content["fixed"] == 1
    assert (agent.folder / "train.py").read_text() == PROGRAM
    answer = await agent("fix", target="train.py", run=False, write=True)
    assert "weights = weights.clamp(max=10.0)" in (agent.folder / "train.py").read_text()
    assert answer.structured_content["findings"] == []


async def tells_what_held_and_what_was_not_tried(agent: Agent) -> None:
    given = "self=Net(3), x=torch.randn(4, 8)"
    answer = await agent("experiments", target="train.py::Net.forward", inputs=given, device="cpu", seconds=20)
    assert "    held: " in words(answer)
    assert "    not tried: " in words(answer)
    (run,) = answer.structured_content["runs"]
    assert {tried["outcome"] for tried in run["experiments"]} >= {"held", "not-tried"}


async def forecasts_what_it_takes(agent: Agent) -> None:
    given = "self=Net(4096), x=torch.randn(4096, 8)"
    answer = await agent("forecast", target="train.py::Net.forward", inputs=given, gpu="1GiB")
    (told,) = answer.structured_content["forecasts"]
    assert told["outcome"] == "passed", told
    assert told["forecast"]["fits"] is True
    assert told["forecast"]["peak_allocated"] >= 4 * 4096 * 4096
    assert "train.py::Net.forward" in words(answer)
    assert "unheard of" in await agent.refused("forecast", target="train.py", gpu="unheard of")


@in_session()
async def test_rules_are_explained(reader: Agent) -> None:
    answer = await reader("explain", code="dg101")
    assert words(answer).startswith("# DG101: inplace-on-saved-tensor")
    assert answer.structured_content["code"] == "DG101"
    assert "did you mean" in await reader.refused("explain", code="DG1O1")


@in_session("--trust")
async def test_what_is_wrong_with_a_call_is_told_to_the_model(agent: Agent) -> None:
    assert "none.py: no such file or folder" in await agent.refused("check", path="none.py")
    assert "none.py: no such file or folder" in await agent.refused("run", target="none.py::f")
    told = await agent.refused("run", target="train.py::Net.forwrd")
    assert told == "train.py has no function `Net.forwrd`; did you mean `Net.forward`?"
    assert "name what is to be run" in await agent.refused("run")
    assert "leave out `target`" in await agent.refused("run", target="train.py", command=["python", "train.py"])
    assert "'path' is a required property" in await agent.refused("check")
    assert "was unexpected" in await agent.refused("check", path="train.py", fix=True)
    assert "there is no tool `launch`" in await agent.refused("launch")
    (agent.folder / "broken.py").write_text("def f(:\n")
    assert "broken.py: " in await agent.refused("run", target="broken.py")


@in_session()
async def test_nothing_runs_where_the_user_has_not_allowed_it(reader: Agent) -> None:
    for tool in ("run", "experiments", "fix", "forecast"):
        told = await reader.refused(tool, target="train.py::overwrites")
        assert "drygrad mcp --trust" in told
    fixed = await reader("fix", target="train.py", run=False)
    assert fixed.structured_content["fixed"] == 1, "what executes nothing needs no trust"


@in_session("--trust")
async def test_files_elsewhere_are_out_of_reach(agent: Agent) -> None:
    outside = agent.folder.parent / f"{agent.folder.name}-outside"
    outside.mkdir()
    (outside / "secret.py").write_text("x = 1\n")
    (agent.folder / "link.py").symlink_to(outside / "secret.py")
    for path in (str(outside), str(outside / "secret.py"), "../", "link.py", "~"):
        assert "outside of the folders" in await agent.refused("check", path=path)
    assert "outside of the folders" in await agent.refused("run", target=f"{outside / 'secret.py'}::f")
    told = await agent.refused("run", command=["python", str(outside / "secret.py")])
    assert "outside of the folders" in told
    assert (await agent("check", path=str(agent.folder))).structured_content["findings"]
    assert "no such file" in await agent.refused("check", path="-"), "stdin is the protocol's"


def test_a_folder_that_is_not_there_is_told(folder: Path) -> None:
    with pytest.raises(Failure, match="nowhere: no such folder"):
        Session(arguments_of(str(folder / "nowhere")))


async def test_the_client_s_roots_count_before_the_working_folder(folder: Path) -> None:
    elsewhere = folder / "a root"
    elsewhere.mkdir()
    (elsewhere / "other.py").write_text(PROGRAM)

    async def roots(_: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root.model_validate({"uri": elsewhere.as_uri()})])

    async with talking(mode="legacy", list_roots_callback=roots) as agent:
        assert (await agent("check", path="other.py")).structured_content["findings"]
        assert "outside of the folders" in await agent.refused("check", path=str(folder / "train.py"))


@in_session("--trust")
async def test_a_run_that_hangs_is_cancelled_with_its_call(agent: Agent) -> None:
    """The worker, which takes one run at a time here, takes the next one."""
    given = f"flag={str(agent.folder / 'flag')!r}"
    call = asyncio.ensure_future(agent("run", target="train.py::endless", inputs=given, device="cpu", timeout=300))
    while not any(message.endswith("running") for message in agent.messages):
        assert not call.done(), call.result()
        await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    answer = await agent("run", target="train.py::overwrites", device="cpu")
    assert answer.structured_content["runs"][0]["outcome"] == "failed"
