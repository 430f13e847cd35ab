"""The client and its helper process: bounded, replaced, cached, never outliving the server."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
import pytest_asyncio

from drygrad.static.lookup.answers import MODULE
from drygrad.static.lookup.client import Limits, LookupClient, Place
from drygrad.static.lookup.helper import helper_command

from .conftest import PATIENT, Write

ROOT = Path(__file__).resolve().parents[3]

PROJECT = {
    "models.py": """
        open("executed", "w").close()
        import torch.nn as nn
        class Net(nn.Module): ...
        TABLE = {"net": Net}
        def make(name):
            return TABLE[name]()
        def choose(deep):
            return Net() if deep else Net(1)
        Chosen = Net if nn else None
        MODEL = TABLE["net"]()
    """,
}

needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="there is no /proc")


@pytest_asyncio.fixture
async def client() -> AsyncIterator[LookupClient]:
    client = LookupClient(PATIENT)
    yield client
    await client.close()


@pytest.fixture
def place(write: Write) -> Place:
    return write(PROJECT)


def script(tmp_path: Path, text: str) -> list[str]:
    """Return the command of a helper that misbehaves."""
    path = tmp_path / "helper.py"
    path.write_text("import json, os, sys, time\n" + dedent(text))
    return [sys.executable, "-I", "-S", str(path)]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


async def gone(pid: int) -> bool:
    end = time.monotonic() + 30.0
    while alive(pid) and time.monotonic() < end:
        await asyncio.sleep(0.02)
    return not alive(pid)


async def test_light_and_deep_answers(client: LookupClient, place: Place) -> None:
    answers = await client.ask(place, ["models.Net", "models.make", "models.choose", "models.MODEL", ".models"])
    assert answers["models.Net"].bases == (MODULE,)
    assert answers["models.make"].returns == "models.Net"
    assert answers["models.choose"].returns == "models.Net"
    assert (answers["models.MODEL"].kind, answers["models.MODEL"].is_module) == ("instance", True)
    assert answers[".models"].kind == "module"


async def test_nothing_of_the_users_is_executed(client: LookupClient, place: Place) -> None:
    await client.ask(place, ["models.Chosen", "models.make", "torch.nn.Module", "torch.anything"])
    assert client.pid is not None
    assert not list(place.root.rglob("executed"))
    assert not (Path(sys.executable).parent / "executed").exists()


@needs_proc
async def test_jedi_does_not_load_torch_beside_it(write: Write) -> None:
    torch = importlib.util.find_spec("torch")
    if torch is None or torch.origin is None:
        pytest.skip("torch is not installed")
    place = write({"models.py": "import torch\nchosen = torch.zeros(3) if torch else None\n"})
    place = Place(place.path, place.root, (str(Path(torch.origin).parents[1]),))
    client = LookupClient(replace(PATIENT, each=2.0))  # it reads torch for longer than anybody waits
    await client.ask(place, ["models.chosen"])
    assert "libtorch" not in Path(f"/proc/{client.pid}/maps").read_text()
    await client.close()


async def test_the_guard_refuses_to_execute(tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text("print('executed')")
    program = """
        import subprocess, sys
        from pathlib import Path
        from drygrad.static.lookup import guard
        guard.install([])
        import colorsys
        for act in (lambda: __import__("evil"), lambda: subprocess.run(["true"]), lambda: open("written", "w")):
            try:
                act()
            except (guard.Refused, PermissionError) as refusal:
                print("refused", refusal)
    """
    search = f"import sys; sys.path[:0] = {[str(tmp_path), str(ROOT / 'analyzers')]!r}\n"
    command = [*helper_command()[:-1], search + dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    evil, process, file = done.stdout.splitlines()
    assert "evil.py is read, not executed" in evil
    assert process == "refused subprocess.Popen is refused"
    assert file == "refused 'written' is not to be written"


async def test_answers_are_kept_until_a_file_changes(client: LookupClient, place: Place, write: Write) -> None:
    assert client.known(place.path, ["models.Net"]) == {}
    assert (await client.ask(place, ["models.Net"]))["models.Net"].is_module
    write({"models.py": "class Net: ...\n"})
    assert (await client.ask(place, ["models.Net"]))["models.Net"].is_module
    client.forget(place.root / "models.py")
    assert client.known(place.path, ["models.Net"]) == {}
    assert not (await client.ask(place, ["models.Net"]))["models.Net"].is_module


async def test_two_askers_at_once_make_one_exchange(client: LookupClient, place: Place) -> None:
    first, second = await asyncio.gather(client.ask(place, ["models.Net"]), client.ask(place, ["models.Net"]))
    assert first == second
    assert first["models.Net"].is_module


async def test_a_cancelled_wait_disturbs_nobody(client: LookupClient, place: Place) -> None:
    task = asyncio.create_task(client.ask(place, ["models.make"]))
    while client.pid is None:
        await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()
    assert (await client.ask(place, ["models.make"]))["models.make"].returns == "models.Net"


async def test_the_event_loop_goes_on_meanwhile(tmp_path: Path, place: Place) -> None:
    turned = tmp_path / "turned"
    waiting = f"""
        sys.stdin.readline()
        while not os.path.exists({str(turned)!r}):
            time.sleep(0.01)
        answers = {{"models.Net": {{"kind": "class"}}}}
        print(json.dumps({{"id": 1, "answers": answers, "late": [], "errors": []}}), flush=True)
    """
    client = LookupClient(PATIENT, script(tmp_path, waiting))
    task = asyncio.create_task(client.ask(place, ["models.Net"]))
    while client.pid is None:
        await asyncio.sleep(0)
    turned.touch()
    assert (await task)["models.Net"].kind == "class"
    await client.close()


async def test_a_hanging_helper_is_killed_in_time(tmp_path: Path, place: Place) -> None:
    client = LookupClient(Limits(timeout=0.5), script(tmp_path, "time.sleep(60)"))
    task = asyncio.create_task(client.ask(place, ["models.Net"]))
    while (pid := client.pid) is None:
        await asyncio.sleep(0)
    assert await task == {}
    assert pid is not None
    assert await gone(pid)
    assert client.pid is None
    await client.close()


@pytest.mark.parametrize(
    "text",
    [
        "sys.exit(3)",
        "sys.stdin.readline(); os.abort()",
        "sys.stdin.readline(); print('garbage', flush=True); time.sleep(90)",
        "sys.stdin.readline(); print('[1]', flush=True); time.sleep(90)",
        "sys.stdin.readline(); print(json.dumps({'id': 1}), flush=True); time.sleep(90)",
        "sys.stdin.readline(); print(json.dumps({'id': 8, 'answers': {}}), flush=True); time.sleep(90)",
        "sys.stdin.readline(); print('x' * 5_000_000, flush=True); time.sleep(90)",
        "sys.stdin.readline(); sys.stdout.buffer.write(b'\\xff\\n'); sys.stdout.flush(); time.sleep(90)",
        """
        sys.stdin.readline()
        print(json.dumps({'id': 1, 'answers': {'models.Net': {'kind': 3}}, 'late': [], 'errors': []}), flush=True)
        time.sleep(90)
        """,
    ],
)
async def test_a_broken_helper_is_replaced(tmp_path: Path, place: Place, text: str) -> None:
    client = LookupClient(Limits(timeout=60.0, first_pause=0.0), script(tmp_path, text))
    before = time.monotonic()
    assert await client.ask(place, ["models.Net"]) == {}
    assert client.pid is None
    assert time.monotonic() - before < 60.0
    await client.close()


async def test_it_gives_up_and_says_so_once(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    client = LookupClient(Limits(first_pause=0.0), ["/nonexistent/interpreter"])
    with caplog.at_level(logging.WARNING):
        for number in range(10):
            await client.ask(place, [f"models.Net{number}"])
    assert len(caplog.records) == 1
    assert "off now" in caplog.text
    await client.close()


async def test_it_waits_after_a_failure(tmp_path: Path, place: Place) -> None:
    starts = tmp_path / "starts"
    client = LookupClient(Limits(first_pause=30.0), script(tmp_path, f"open({str(starts)!r}, 'a').write('x')"))
    for _ in range(4):
        await client.ask(place, ["models.Net"])
    assert starts.read_text() == "x"
    await client.close()


async def test_a_question_that_always_fails_is_not_asked_for_ever(tmp_path: Path, place: Place) -> None:
    client = LookupClient(Limits(first_pause=0.0), script(tmp_path, "sys.exit(1)"))
    answers = [await client.ask(place, ["models.Net"]) for _ in range(2)]
    assert answers[0] == {}
    assert answers[1]["models.Net"].kind == "unknown"
    await client.close()


@pytest.mark.parametrize(
    "limits", [replace(PATIENT, answers=1), pytest.param(replace(PATIENT, resident_bytes=1), marks=needs_proc)]
)
async def test_an_old_helper_is_replaced(place: Place, limits: Limits) -> None:
    client = LookupClient(limits)
    assert (await client.ask(place, ["models.Net"]))["models.Net"].is_module
    assert client.pid is None
    assert (await client.ask(place, ["models.make"]))["models.make"].kind == "function"
    await client.close()


async def test_late_names_are_asked_again(tmp_path: Path, place: Place) -> None:
    text = """
        for count, line in enumerate(sys.stdin, 1):
            answer = {"kind": "class" if count == 2 else "unknown"}
            late = ["models.Net"] if count == 1 else []
            reply = {"id": count, "answers": {"models.Net": answer}, "late": late, "errors": []}
            print(json.dumps(reply), flush=True)
    """
    client = LookupClient(PATIENT, script(tmp_path, text))
    assert await client.ask(place, ["models.Net"]) == {}
    assert (await client.ask(place, ["models.Net"]))["models.Net"].kind == "class"
    await client.close()


@needs_proc
async def test_close_kills_the_helper_in_the_midst_of_a_question(tmp_path: Path, place: Place) -> None:
    client = LookupClient(Limits(timeout=30.0), script(tmp_path, "time.sleep(60)"))
    task = asyncio.create_task(client.ask(place, ["models.Net"]))
    while (pid := client.pid) is None:
        await asyncio.sleep(0)
    await asyncio.wait_for(client.close(), 20.0)
    assert await gone(pid)
    with suppress(asyncio.CancelledError):
        await asyncio.wait_for(task, 20.0)
    assert await client.ask(place, ["models.Net"]) == {}


SERVER = """
    import asyncio, sys
    from pathlib import Path
    from drygrad.static.lookup.client import LookupClient, Place

    async def main():
        client = LookupClient()
        await client.ask(Place(Path(sys.argv[1]), Path(sys.argv[2])), ["models.Net"])
        print(client.pid, flush=True)
        await asyncio.sleep(60)

    asyncio.run(main())
"""


@needs_proc
async def test_the_helper_dies_with_the_server(place: Place) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "analyzers")}
    command = [sys.executable, "-c", dedent(SERVER), str(place.path), str(place.root)]
    server = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, env=environment)
    assert server.stdout is not None
    pid = int(await server.stdout.readline())
    assert alive(pid)
    server.send_signal(signal.SIGKILL)
    await server.wait()
    assert await gone(pid)
