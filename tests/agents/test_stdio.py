"""``drygrad mcp`` as a program, as agents start it: over stdin and stdout, with the SDK's client."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from cli_harness import environment, run_program
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from drygrad.agents.tools import TOOLS

PROGRAM = """\
import time

import torch


def overwrites():
    weights = torch.exp(torch.ones(2, 4, requires_grad=True))
    weights.clamp_(max=10.0)
    weights.sum().backward()


# dry-run: x=torch.ones(3)
def noisy(x):
    print("{not json}")
    return x.log() - torch.ones(4)


# dry-run: x=torch.ones(3)
def endless(x):
    print("{not json}", flush=True)
    time.sleep(600)
"""


def client(folder: Path, *given: str) -> Client:
    """Return a client that starts the server in a folder, and complains of each line that is no message."""
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "drygrad", "mcp", *given], cwd=folder, env=environment()
    )
    return Client(stdio_client(command), message_handler=_no_noise)


async def _no_noise(message: Any) -> None:
    if isinstance(message, Exception):
        raise AssertionError("stdout is the protocol's alone") from message


def words(answer: types.CallToolResult) -> str:
    (content,) = answer.content
    assert isinstance(content, types.TextContent)
    return content.text


async def test_a_client_checks_and_leaves(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    async with client(tmp_path) as session:
        assert session.instructions
        assert [tool.name for tool in (await session.list_tools()).tools] == [tool.name for tool in TOOLS]
        answer = await session.call_tool("check", {"path": "train.py"})
        assert "train.py:8:" in words(answer)
        refused = await session.call_tool("run", {"target": "train.py"})
        assert refused.is_error
        assert "--trust" in words(refused)


@pytest.mark.slow
async def test_a_client_runs_and_cancels_what_hangs(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    async with client(tmp_path, "--trust", "--python", sys.executable) as session:
        answer = await session.call_tool("run", {"target": "train.py::noisy", "device": "cpu"})
        assert "train.py::noisy: failed on the CPU" in words(answer)
        running = asyncio.Event()

        async def heard(progress: float, total: float | None, message: str | None) -> None:
            del progress, total
            if message and message.endswith("running"):
                running.set()

        endless = {"target": "train.py::endless", "timeout": 500}
        call = asyncio.ensure_future(session.call_tool("run", endless, progress_callback=heard))
        await running.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        again = await session.call_tool("run", {"target": "train.py::noisy", "device": "cpu"})
        assert not again.is_error


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['mcp'] = None\n")
    outcome = run_program("mcp", cwd=tmp_path, path=tmp_path)
    assert (outcome.status, outcome.out) == (2, "")
    assert "pip install 'drygrad[mcp]'" in outcome.err
