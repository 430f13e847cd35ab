"""The audit hook: sentences, and who is told of a refusal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from drygrad.worker.sandbox import state

PROGRAM = """
import json, os, sys
from drygrad.worker.sandbox import audit
told = []
audit.install(lambda kind, argument, frame: told.append([kind, argument, frame.f_code.co_name]))

def user():
    exec(sys.argv[1])

try:
    user()
    error = None
except audit.Blocked as blocked:
    error = [str(blocked), blocked.errno, blocked.kind]
print(json.dumps({"told": told, "error": error}))
"""


def tried(code: str, layer: str, private: Path) -> dict[str, list[object]]:
    """What a process under the hook says; its layer is only claimed."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        state.VARIABLE: state.Sandbox(layer=layer, private=str(private)).to_json(),
    }
    words = [sys.executable, "-c", PROGRAM, code]
    ended = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=True, cwd=private)
    return json.loads(ended.stdout)


@pytest.mark.parametrize(
    ("code", "kind", "argument"),
    [
        ("open('/outside.txt', 'w')", "write", "/outside.txt"),
        ("os.remove('/outside.txt')", "write", "/outside.txt"),
        ("os.rename('/outside.txt', 'inside.txt')", "write", "/outside.txt"),
        ("os.symlink('inside.txt', '/outside.txt')", "write", "/outside.txt"),
        ("os.unlink('outside.txt', dir_fd=os.open('/', 0))", "write", "/outside.txt"),
        ("__import__('sqlite3').connect('/outside.db')", "write", "/outside.db"),
        ("os.system('true')", "process", "true"),
        ("os.execv('/bin/true', ['true'])", "process", "/bin/true"),
        ("os.kill(1, 9)", "signal", "process 1"),
        ("__import__('socket').getaddrinfo('localhost', 80)", "network", "localhost"),
        ("__import__('ctypes').CDLL(None).unlink", "native", "unlink"),
    ],
)
def test_a_refusal_is_told_with_its_kind_and_its_object(code: str, kind: str, argument: str, tmp_path: Path) -> None:
    found = tried(code, "none", tmp_path)
    assert [told[:2] for told in found["told"]] == [[kind, argument]]  # type: ignore[index]
    message, _, blocked_kind = found["error"]
    assert blocked_kind == kind
    assert str(message).startswith("[Errno 1] drygrad: a dry run does not ")
    assert argument in str(message)


def test_the_frame_that_asked_is_told(tmp_path: Path) -> None:
    assert tried("open('/outside.txt', 'w')", "none", tmp_path)["told"][0][2] == "<module>"  # type: ignore[index]


@pytest.mark.parametrize(
    "code",
    [
        "open('inside.txt', 'w').close()",
        "open('/etc/passwd').close()",
        "open(os.devnull, 'w').close()",
        "os.kill(os.getpid(), 0)",
        "os.kill(1, 0) if os.geteuid() == 0 else None",
        "__import__('socket').socketpair()",
        "__import__('sqlite3').connect(':memory:')",
        "__import__('ctypes').CDLL(None).getpid()",
    ],
)
def test_what_leaves_no_trace_is_allowed(code: str, tmp_path: Path) -> None:
    assert tried(code, "none", tmp_path) == {"told": [], "error": None}


@pytest.mark.parametrize("layer", ["overlay", "landlock"])
def test_where_the_kernel_holds_files_native_code_may_be_called(layer: str, tmp_path: Path) -> None:
    assert tried("__import__('ctypes').CDLL(None).unlink", layer, tmp_path)["error"] is None


def test_in_an_overlay_files_may_be_written(tmp_path: Path) -> None:
    assert tried(f"open({str(tmp_path.parent / 'other')!r}, 'w').close()", "overlay", tmp_path)["error"] is None
