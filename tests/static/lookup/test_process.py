"""The helper process, spoken to directly."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from drygrad.static.lookup import process
from drygrad.static.lookup.client import Place
from drygrad.static.lookup.helper import helper_command

from .conftest import Write


@pytest.fixture
def helper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(helper_command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        yield running
        running.kill()


def exchange(
    helper: subprocess.Popen[bytes], place: Place, names: list[str], seconds: float = 60.0, each: float = 50.0
) -> dict[str, Any]:
    assert helper.stdin is not None
    assert helper.stdout is not None
    request: dict[str, object] = {
        "id": 7,
        "path": str(place.path),
        "root": str(place.root),
        "names": names,
        "seconds": seconds,
        "each": each,
    }
    request |= {"interpreter_paths": place.interpreter_paths}
    helper.stdin.write(json.dumps(request).encode() + b"\n")
    helper.stdin.flush()
    return json.loads(helper.stdout.readline())


def test_it_ends_with_its_input(helper: subprocess.Popen[bytes], write: Write) -> None:
    reply = exchange(helper, write({"m.py": "class A: ...\n"}), ["m.A", "m.nothing"])
    assert reply["id"] == 7
    assert reply["answers"]["m.A"]["kind"] == "class"
    assert (reply["late"], reply["errors"]) == ([], [])
    assert helper.stdin is not None
    helper.stdin.close()
    assert helper.wait(30.0) == 0


def test_names_without_time_are_late(helper: subprocess.Popen[bytes], write: Write) -> None:
    place = write({"m.py": "class A: ...\nX = A if A else None\n"})
    assert exchange(helper, place, ["m.A"], seconds=-1.0)["late"] == ["m.A"]
    # Nobody loads jedi in a thousandth of a second.
    reply = exchange(helper, place, ["m.A", "m.X"], each=0.001)
    assert reply["late"] == ["m.X"]
    assert reply["answers"]["m.A"]["kind"] == "class"


def test_prints_do_not_reach_the_wire() -> None:
    program = """
        from drygrad.static.lookup import process
        wire = process.private_output()
        print("noise", flush=True)
        wire.write(b"wire")
        wire.flush()
    """
    done = run(program)
    assert done.stdout == b"wire"
    assert b"noise" in done.stderr


def test_a_failure_of_jedi_costs_one_name_only(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(process, "_deep", fail)
    place = write({"m.py": "class A: ...\nX = A if A else None\n"})
    request = {"path": str(place.path), "root": str(place.root), "interpreter_paths": [], "names": ["m.X", "m.A"]}
    reply = process.reply_to({**request, "seconds": 60.0, "each": 50.0})
    assert reply["answers"]["m.A"]["kind"] == "class"
    assert reply["answers"]["m.X"]["kind"] == "unknown"
    assert "ZeroDivisionError" in reply["errors"][0]


def run(program: str) -> subprocess.CompletedProcess[bytes]:
    """Run a program with the helper's interpreter and search path."""
    *command, helper_program = helper_command()
    search_path = helper_program.split("; from ")[0]
    return subprocess.run([*command, f"{search_path}\n{dedent(program)}"], capture_output=True, check=True)


def test_torch_is_not_loaded_by_the_package() -> None:
    done = run("import drygrad.static.lookup.process, drygrad.static.lookup.deep; print('torch' in sys.modules)")
    assert done.stdout.strip() == b"False"


def test_jedi_leaves_no_files(helper: subprocess.Popen[bytes], write: Write) -> None:
    before = {path: path.stat().st_mtime_ns for path in _caches()}
    reply = exchange(helper, write({"m.py": "class A: ...\ndef f(x): return A() if x else A()\n"}), ["m.f"])
    assert reply["answers"]["m.f"]["returns"] == "m.A"
    assert {path: path.stat().st_mtime_ns for path in _caches()} == before


def _caches() -> list[Path]:
    return [path for name in ("jedi", "parso") for path in (Path.home() / ".cache" / name).rglob("*")]
