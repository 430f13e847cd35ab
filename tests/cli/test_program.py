"""``drygrad`` as a program: its start, its end, and the other commands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli_harness import Cli, environment, program, run_program

from drygrad.cli.arguments import parser
from drygrad.interpreters import Interpreter, find_interpreter, probe
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
    for number in range(3_000):
        (tmp_path / f"f{number}.py").write_text("x = (\n")
    process = subprocess.Popen(
        program("check", "."), cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout and process.stderr
    process.stdout.readline()
    process.stdout.close()
    assert b"Traceback" not in process.stderr.read()
    assert process.wait(20) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is another thing there")
def test_ctrl_c_ends_it_with_130(tmp_path: Path) -> None:
    pipes = [tmp_path / "a.py", tmp_path / "b.py"]
    for pipe in pipes:
        os.mkfifo(pipe)
    command = program("check", "--jobs", "2", "a.py", "b.py")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background hands down that it is ignored
    process = subprocess.Popen(command, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, start_new_session=True)
    with pipes[0].open("wb"), pipes[1].open("wb"):  # each waits until a process of drygrad reads the file
        os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=20)
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


def test_doctor_says_what_there_is(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    outcome = cli("doctor")
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
    assert find_interpreter(tmp_path / "nowhere").origin == "CONDA_PREFIX"
    monkeypatch.delenv("CONDA_PREFIX")
    assert find_interpreter(tmp_path / "nowhere").origin == "PATH"


@pytest.mark.parametrize(
    ("script", "problem"),
    [("echo oops >&2; exit 3", "oops"), ("sleep 30", "no answer within 0.3 s"), ("echo []", "exit")],
)
def test_an_interpreter_that_fails_is_said(tmp_path: Path, script: str, problem: str) -> None:
    fake = tmp_path / "python"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    answer = probe(Interpreter(fake, "test"), seconds=0.3 if "sleep" in script else 10)
    assert problem in (answer.problem or "")
    assert "cannot start" in (probe(Interpreter(tmp_path / "none", "test")).problem or "")


def test_the_torch_of_an_interpreter_is_read_and_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')\n")
    (package / "version.py").write_text("__version__ = '9.9.0+cu999'\ncuda = '99.9'\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    answer = probe(Interpreter(Path(sys.executable), "test"))
    assert (answer.torch, answer.cuda, answer.problem) == ("9.9.0+cu999", "99.9", None)
