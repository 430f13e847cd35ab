"""``drygrad`` as a program: its start, its end, and the other commands."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from cli_harness import Cli, environment, program, run_program

from drygrad.cli.arguments import parser
from drygrad.dryrun.service import Home
from drygrad.dryrun.states import State
from drygrad.interpreters import find_interpreter
from drygrad.static.registry import all_rules
from drygrad.version import __version__


def test_version(tmp_path: Path) -> None:
    assert run_program("--version", cwd=tmp_path).out == f"drygrad {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["chek"], ["check", "--fixx"], ["explain"]])
def test_wrong_arguments_are_status_2(cli: Cli, arguments: list[str]) -> None:
    outcome = cli(*arguments)
    assert (outcome.status, "usage: drygrad" in outcome.err) == (2, True)


def test_every_option_has_a_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["check", "--help"])
    assert "--unsafe-fixes" in capsys.readouterr().out


def test_a_check_imports_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import torch\n")
    code = "import sys; from drygrad.cli.main import main; main(['check', 'a.py']); print(sorted(sys.modules))"
    command = [sys.executable, "-c", code]
    out = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True).stdout
    loaded = {name.strip("'[] \n").split(".")[0] for name in out.splitlines()[-1].split(",")}
    assert loaded & {"torch", "rich", "pygls", "lsprotocol", "jedi", "pathspec", "multiprocessing", "asyncio"} == set()


def test_a_reader_that_goes_away_is_no_crash(tmp_path: Path) -> None:
    name = "a" * 100  # what is printed must not fit into a pipe
    for number in range(800):
        (tmp_path / f"{name}{number}.py").write_text("x = (\n")
    process = subprocess.Popen(
        program("check", "."), cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout and process.stderr
    process.stdout.readline()
    process.stdout.close()
    assert b"Traceback" not in process.stderr.read()
    assert process.wait(180) == 2


WAITING = """
import os
import sys

def wait(event, arguments):
    if event == "open" and os.path.basename(str(arguments[0])) in ("a.py", "b.py"):
        open(f"{arguments[0]}.pipe").read()

sys.addaudithook(wait)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is another thing there")
def test_ctrl_c_ends_it_with_130(tmp_path: Path) -> None:
    pipes = [tmp_path / "a.py.pipe", tmp_path / "b.py.pipe"]
    for pipe in pipes:
        os.mkfifo(pipe)
        pipe.with_suffix("").touch()
    (tmp_path / "sitecustomize.py").write_text(WAITING)
    command = program("check", "--jobs", "2", "a.py", "b.py")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background hands down that it is ignored
    environ = {**environment(), "PYTHONPATH": os.pathsep.join((environment()["PYTHONPATH"], str(tmp_path)))}
    process = subprocess.Popen(command, cwd=tmp_path, env=environ, stderr=subprocess.PIPE, start_new_session=True)
    with pipes[0].open("wb"), pipes[1].open("wb"):  # each waits until a process of drygrad reads the file
        os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=180)
    assert process.returncode == 130
    assert err == b"drygrad: interrupted\n"


def test_paths_that_are_no_text_are_printed(tmp_path: Path) -> None:
    name = b"a\xff.py"
    try:
        Path(os.fsdecode(bytes(tmp_path) + b"/" + name)).write_text("x = (\n")
    except OSError:
        pytest.skip("this file system wants UTF-8")
    for output in ("text", "json", "sarif", "github"):
        assert run_program("check", ".", "--output-format", output, cwd=tmp_path).status == 1


def test_explain_takes_codes_and_names(cli: Cli) -> None:
    for word in ("DG904", "dg904", "unused-suppression"):
        outcome = cli("explain", word)
        assert outcome.status == 0
        assert outcome.out.startswith("# DG904: unused-suppression\n\nSeverity: hint · a fix is offered")
        assert "## Why is this bad?" in outcome.out


def test_explain_knows_what_was_meant(cli: Cli) -> None:
    outcome = cli("explain", "unused-supression")
    assert (outcome.status, outcome.out) == (2, "")
    assert "did you mean `unused-suppression`?" in outcome.err


def test_rules_lists_all(cli: Cli) -> None:
    lines = cli("rules").out.splitlines()
    assert [line.split()[0] for line in lines] == [rule.code for rule in all_rules()]
    entries = json.loads(cli("rules", "--output-format", "json").out)
    assert {entry["code"]: entry["fix"] for entry in entries}["DG904"] is True


INTRODUCTION = {
    "torch": "2.9.0",
    "python": "3.11.7",
    "cuda": {"available": True, "devices": ["NVIDIA H200"], "free_bytes": [30 << 30]},
    "sim": {"works": False, "why": "no relabelling"},
    "sandbox": {"overlay": True, "landlock": "too old a kernel"},
}


def test_doctor_says_why_there_is_no_dry_run(cli: Cli) -> None:
    python = cli.write("python", "#!/bin/sh\nexit 3\n")
    outcome = cli("doctor", "--python", str(python))
    assert (outcome.status, "no such interpreter" in outcome.err) == (2, True)
    python.chmod(0o755)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    outcome = cli("doctor", "--python", str(python))
    assert f"no torch in {sys.executable}" in outcome.out
    assert outcome.status == 0


def test_doctor_starts_no_program_of_the_project_unasked(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Home] = []

    async def state(home: Home) -> State:
        started.append(home)
        return State("ready", str(home.interpreter), ready=INTRODUCTION)

    monkeypatch.setattr("drygrad.cli.doctor.worker_state", state)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    planted = cli.write(".venv/bin/python", "")
    outcome = cli("doctor")
    assert "(from .venv of the project)" in outcome.out
    assert "not tried: that would start a program of the project; --trust allows it" in outcome.out
    assert (outcome.status, started) == (0, [])
    cli("doctor", "--trust")
    assert [home.interpreter for home in started] == [planted]
    cli.write("env/bin/python", "").chmod(0o755)
    cli.write("pyproject.toml", '[tool.drygrad.run]\ninterpreter = "env/bin/python"\n')
    outcome = cli("doctor")
    assert "env/bin/python (from [tool.drygrad.run])" in outcome.out
    assert len(started) == 1


@pytest.mark.parametrize("planted", ["drygrad/model.py", "drygrad/cli/main.py", "argparse.py", "json/__init__.py"])
def test_a_module_of_the_current_folder_is_not_imported(tmp_path: Path, planted: str) -> None:
    path = tmp_path / planted
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("raise SystemExit('planted')\n")
    assert run_program("check", cwd=tmp_path).status == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["server", "--tcp", "-5"], "--tcp: must be from 0"),
        (["server", "--tcp", "65536"], "--tcp: must be from 0"),
        (["run", "--launcher", "'", "a.py"], "--launcher: not a command line: No closing quotation"),
        (["run", "--gpu-memory", "9" * 400, "a.py"], "--gpu-memory: no machine has that much memory"),
    ],
)
def test_options_out_of_their_range_are_named(cli: Cli, arguments: list[str], complaint: str) -> None:
    outcome = cli(*arguments)
    assert (outcome.status, complaint in outcome.err) == (2, True)


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        outcome = run_program("server", "--tcp", str(port), cwd=tmp_path)
    assert (outcome.status, outcome.err) == (2, f"drygrad: cannot listen on port {port}: Address already in use\n")


def test_doctor_says_what_there_is(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    async def state(home: Home) -> State:
        return State("ready", str(home.interpreter), ready=INTRODUCTION)

    monkeypatch.setattr("drygrad.cli.doctor.worker_state", state)
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    outcome = cli("doctor")
    assert "torch        2.9.0, Python 3.11.7" in outcome.out
    assert "GPU          NVIDIA H200 with 30.0 GiB free" in outcome.out
    assert "does not work: no relabelling" in outcome.out
    assert "device       cuda (the GPU has 30.0 GiB free)" in outcome.out
    assert "landlock: too old a kernel" in outcome.out
    assert f"drygrad      {__version__}" in outcome.out
    assert "(from VIRTUAL_ENV)" in outcome.out
    assert "pygls        2." in outcome.out
    cli.write("pyproject.toml", "[tool.drygrad]\nselekt = 1\n")
    broken = cli("doctor")
    assert (broken.status, "unknown setting `selekt`" in broken.out) == (2, True)


def test_the_interpreter_is_the_nearest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("chosen", ".venv", "virtual", "conda"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin" / "python").write_text("")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "virtual"))
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "conda"))
    assert find_interpreter(tmp_path, "/opt/python").path == Path("/opt/python")
    assert find_interpreter(tmp_path).origin == "VIRTUAL_ENV"
    monkeypatch.delenv("VIRTUAL_ENV")
    assert find_interpreter(tmp_path).path == tmp_path / ".venv" / "bin" / "python"
    assert find_interpreter(tmp_path, file=tmp_path / "a.py").path == tmp_path / ".venv" / "bin" / "python"
    nested = tmp_path / "speech" / ".venv" / "bin" / "python"
    nested.parent.mkdir(parents=True)
    nested.write_text("")
    assert find_interpreter(tmp_path, file=tmp_path / "speech" / "train" / "a.py").path == nested
    assert find_interpreter(tmp_path / "nowhere").origin == "CONDA_PREFIX"
    monkeypatch.delenv("CONDA_PREFIX")
    assert find_interpreter(tmp_path / "nowhere").origin == "PATH"
