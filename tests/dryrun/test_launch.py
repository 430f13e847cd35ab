"""The command line of a worker."""

from __future__ import annotations

import sys
from pathlib import Path

from drygrad.dryrun import launch


def test_the_sandbox_is_started_by_path_and_isolated_from_the_environment() -> None:
    words = launch.command("/venv/bin/python", Path("/lib/worker"))
    assert words[0] == sys.executable
    assert "-I" in words
    assert "-m" not in words
    assert Path(words[words.index("-S") + 1]) == launch.SANDBOX
    assert (launch.SANDBOX / "__main__.py").is_file()


def test_the_users_interpreter_and_the_worker_are_what_is_executed() -> None:
    words = launch.command("/venv/bin/python", Path("/lib/worker"), launch.LaunchOptions(workspaces=["/a b", "/c"]))
    assert words[words.index("--") + 1 :] == ["/venv/bin/python", "/lib/worker"]
    assert words[words.index("--workspace") : words.index("--")] == ["--workspace", "/a b", "--workspace", "/c"]


def test_a_prefix_carries_the_launcher_to_another_machine() -> None:
    options = launch.LaunchOptions(prefix=["ssh", "host"], launcher_python="python3", sandbox=Path("/there/sandbox"))
    assert launch.command("/venv/bin/python", Path("/lib/worker"), options)[:3] == ["ssh", "host", "python3"]
    assert launch.probe_command(options)[-2:] == ["/there/sandbox", "--probe"]
