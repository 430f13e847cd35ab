"""Whatever the user's code does, a run ends in a result, and the worker serves the next one."""

from __future__ import annotations

import sysconfig
import time
from pathlib import Path
from typing import Any

import pytest
from worker_client import WorkerClient, plan

NO_ARGUMENTS = "the program was started without command-line arguments"
EXPECTED = [
    # name, text, outcome, (code, line) or None, words of the message
    ("key", "c = {}\nc['lr']\n", "failed", ("DG907", 2), "KeyError: 'lr'"),
    ("syntax", "x = 1\ny = (\n", "failed", ("DG907", 2), "was never closed"),
    ("recursion", "def f():\n    f()\nf()\n", "failed", ("DG907", 2), "infinite recursion"),
    ("interrupt", "raise KeyboardInterrupt\n", "failed", ("DG907", 1), "KeyboardInterrupt"),
    ("status", "import sys\nsys.exit(2)\n", "failed", ("DG907", 2), "status 2"),
    ("exit", "import sys\nsys.exit()\n", "passed", None, ""),
    ("question", "x = 1\nname = input('? ')\n", "blocked", ("DG903", 2), "cannot be answered"),
    (
        "command line",
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('data')\np.parse_args()\n",
        "no-inputs",
        ("DG901", 4),
        "without command-line arguments: the following arguments are required: data",
    ),
    (
        "other command line",
        "import sys\nif len(sys.argv) < 2:\n    sys.exit(1)\n",
        "no-inputs",
        ("DG901", 3),
        "without command-line arguments",
    ),
    ("argument", "import sys\nname = sys.argv[1]\n", "no-inputs", ("DG901", 2), "without command-line arguments"),
    ("variable", "import os\nos.environ['DATA_OF_X']\n", "blocked", ("DG903", 2), "variable DATA_OF_X is not set"),
    ("package", "import absent_xyz\n", "missing-package", None, ""),
    ("optional", "try:\n    import absent_xyz\nexcept ImportError:\n    pass\n", "passed", None, ""),
    ("needed", "try:\n    import absent_xyz\nexcept ImportError:\n    exit(1)\n", "missing-package", None, ""),
    ("memory", "import torch\ntorch.zeros(1 << 45)\n", "out-of-memory", ("DG507", 2), ""),
    ("no memory", "raise MemoryError\n", "out-of-memory", ("DG507", 1), ""),
    (
        "loop",
        "def f():\n    while True: i = 1\nf()\n",
        "deadline",
        ("DG902", 2),
        "still making progress",
    ),
    ("lock", "import threading\nl = threading.Lock()\nl.acquire()\nl.acquire()\n", "deadline", ("DG604", 4), "lock l"),
    (
        "with",
        "import threading\nl = threading.Lock()\nl.acquire()\nwith l:\n    x = 1\n",
        "deadline",
        ("DG604", 4),
        "l",
    ),
    ("queue", "import queue\nq = queue.Queue()\nq.get()\n", "deadline", ("DG604", 3), "Queue.get()"),
    (
        "sleep",
        "import time\ntime.sleep(60)\n",
        "deadline",
        ("DG902", 2),
        "no progress",
    ),
    ("slow queue", "import queue\nqueue.Queue().get(timeout=60)\n", "deadline", ("DG902", 2), "no progress"),
    ("deaf", "x = 1\ny = sum(range(10 ** 11))\n", "deadline", ("DG902", 2), "other threads"),
]


def test_a_function_that_the_program_does_not_come_to_has_not_passed(worker: WorkerClient, tmp_path: Path) -> None:
    result = worker.run(plan(tmp_path, "def f():\n    pass\nraise SystemExit\n", "f"))
    assert (result["outcome"], result["reason"]) == ("no-inputs", "the program exits before it reaches the call")


@pytest.mark.parametrize(("name", "text", "outcome", "fault", "words"), EXPECTED, ids=[case[0] for case in EXPECTED])
def test_how_a_run_ends(
    worker: WorkerClient, tmp_path: Path, name: str, text: str, outcome: str, fault: Any, words: str
) -> None:
    program = plan(tmp_path, text, timeout=120.0)
    result = worker.overdue(program, fault[1]) if outcome == "deadline" else worker.run(program)
    assert result["outcome"] == outcome
    faults = [(f["code"], f["at"]["line"]) for f in result["faults"]]
    assert faults == ([fault] if fault else [])
    assert all(words in f["message"] for f in result["faults"])


def test_a_file_that_is_not_there_is_a_hint(worker: WorkerClient, tmp_path: Path) -> None:
    result = worker.run(plan(tmp_path, "import torch\ntorch.load('absent.pt')\n"))
    (fault,) = result["faults"]
    assert (result["outcome"], fault["code"], fault["severity"]) == ("failed", "DG907", "hint")
    assert fault["message"] == "the run needs `absent.pt`, which does not exist"


def test_a_failure_of_our_own_is_one_sentence(worker: WorkerClient, tmp_path: Path) -> None:
    result = worker.run(plan(tmp_path, "def f(): ...\n", "f", setup=["no step"], arguments=["no argument"]))
    assert result["outcome"] == "error"
    ours = result["notes"][-2:]
    assert ours[0].startswith("drygrad itself failed, please report it: ")
    assert ours[1] == "set DRYGRAD_DEBUG=1 for the traceback"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import ctypes\ndef g():\n    ctypes.string_at(0)\ng()\n", "SIGSEGV"),
        ("import os\nx = 1\nos.abort()\n", "SIGABRT"),
        ("import os\nx = 1\nos.kill(os.getpid(), 9)\n", "SIGKILL"),
        ("import os\nx = 1\nos._exit(3)\n", "status 3"),
    ],
)
def test_a_crash_names_the_signal_and_the_line(worker: WorkerClient, tmp_path: Path, text: str, words: str) -> None:
    result = worker.run(plan(tmp_path, text))
    assert result["outcome"] == "crashed"
    assert words in result["notes"][0]
    if words in ("SIGSEGV", "SIGABRT"):
        assert result["error"]["at"]["line"] == 3


def test_output_is_captured_also_from_below_python(worker: WorkerClient, tmp_path: Path) -> None:
    text = "import os\nprint('one', flush=True)\nos.write(1, b'two\\n')\nos.write(2, b'three\\n')\nprint('four')\n"
    assert worker.run(plan(tmp_path, text))["output"] == {"text": "one\ntwo\nthree\nfour\n", "cut": False}


def test_much_output_is_cut_in_its_middle(worker: WorkerClient, tmp_path: Path) -> None:
    result = worker.run(
        plan(tmp_path, "print('first')\nfor i in range(200_000):\n    print('x' * 50)\nprint('last')\n")
    )
    output = result["output"]
    assert output["cut"]
    assert len(output["text"]) < 70_000
    assert output["text"].startswith("first\n")
    assert output["text"].endswith("last\n")


def test_the_result_comes_through_whatever_the_code_has_done_to_its_process(
    worker: WorkerClient, tmp_path: Path
) -> None:
    text = """\
import json, os, signal, sys, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
signal.signal(signal.SIGALRM, lambda *_: None)
signal.alarm(1)
sys.setrecursionlimit(60)
os.chdir("/")
os.close(0); os.close(1); os.close(2)
sys.stdout = None
json.JSONEncoder = json.dumps = os.write = None
"""
    assert worker.run(plan(tmp_path, text))["outcome"] == "passed"


def test_nothing_of_a_run_outlives_it(worker: WorkerClient, tmp_path: Path) -> None:
    text = """\
import os, time
reader, writer = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(writer, str(os.getpid()).encode())
        time.sleep(60)
    os._exit(0)
print(os.read(reader, 100).decode())
"""
    result = worker.run(plan(tmp_path, text))
    assert result["outcome"] == "passed"
    assert _gone(result["output"]["text"].strip())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import subprocess\nsubprocess.run(['ls'])\n", "a dry run does not start other programs (ls)"),
        ("import socket\nsocket.create_connection(('127.0.0.1', 9))\n", "a dry run does not open network connections"),
        ("import os\nos.kill(os.getppid(), 9)\n", "a dry run does not signal other processes"),
    ],
)
def test_a_refusal_that_ends_the_run_is_a_hint(worker: WorkerClient, tmp_path: Path, text: str, words: str) -> None:
    result = worker.run(plan(tmp_path, text))
    assert result["outcome"] == "blocked"
    (fault,) = result["faults"]
    assert (fault["code"], fault["at"]["line"]) == ("DG903", 2)
    assert fault["message"].startswith(words)


WRAPPED = """\
import socket
class OwnError(Exception):
    pass
def fetch():
    try:
        socket.create_connection(("127.0.0.1", 9))
    except OSError as error:
        WRAP
"""


@pytest.mark.parametrize(
    "wrap",
    [
        "raise OwnError('cannot connect') from error",
        "raise OwnError('cannot connect')",
        "raise OwnError(str(error)) from None",
        "raise OwnError(error) from None",
        "raise OwnError(f'Max retries (Caused by {error!r})') from None",
    ],
)
def test_a_refusal_is_one_however_it_is_wrapped(worker: WorkerClient, tmp_path: Path, wrap: str) -> None:
    result = worker.run(plan(tmp_path, WRAPPED.replace("WRAP", wrap) + "fetch()\n"))
    (fault,) = result["faults"]
    assert (result["outcome"], fault["code"]) == ("blocked", "DG903")
    assert fault["message"].startswith("a dry run does not open network connections (127.0.0.1): ")


def test_a_missing_package_is_named_with_what_installs_it(worker: WorkerClient, tmp_path: Path) -> None:
    result = worker.run(plan(tmp_path, "import torch\nimport absent_xyz.models\n"))
    assert (result["outcome"], result["faults"], result["error"]["at"]["line"]) == ("missing-package", [], 2)
    assert result["error"]["message"].startswith(
        "cannot run here: module `absent_xyz` is neither in the project nor installed in"
    )
    assert "pip install absent-xyz" in result["error"]["message"]


def test_all_missing_packages_are_named_at_once(worker: WorkerClient, tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "__init__.py").write_text("from . import deeper\nimport absent_first.models\n")
    (tmp_path / "part" / "deeper.py").write_text("import absent_second\nimport json, torch\n")
    optional = "try:\n    import absent_optional\nexcept ImportError:\n    pass\n"
    result = worker.run(plan(tmp_path, f"{optional}import absent_xyz\nimport part\nabsent_xyz.f()\n"))
    assert result["outcome"] == "missing-package"
    assert result["reason"].startswith("modules `absent_xyz`, `absent_first` and `absent_second` are neither")
    assert result["reason"].endswith("-m pip install absent-xyz absent-first absent-second`")


def test_a_refusal_that_the_code_bears_stands_in_the_notes(worker: WorkerClient, tmp_path: Path) -> None:
    text = "import subprocess\ntry:\n    subprocess.run(['ls'])\nexcept OSError as error:\n    print(error)\n"
    result = worker.run(plan(tmp_path, text))
    assert (result["outcome"], result["faults"]) == ("passed", [])
    assert "a dry run does not start other programs (ls) (line 3)" in result["notes"]


def _gone(pid: str) -> bool:
    end = time.monotonic() + 60
    while Path("/proc", pid).exists():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def test_a_cancel_is_answered_while_the_run_works(worker: WorkerClient, tmp_path: Path) -> None:
    run = worker.start(plan(tmp_path, "while True:\n    x = 1\n"))
    worker.receive("phase", run)
    worker.send({"type": "cancel", "run": run})
    assert worker.receive("result", run)["result"]["outcome"] == "cancelled"
    assert worker.run(plan(tmp_path, "x = 1\n"))["outcome"] == "passed"


def test_several_runs_at_once(worker: WorkerClient, tmp_path: Path) -> None:
    slow = worker.start(plan(tmp_path, "import time\nwhile True:\n    time.sleep(0.1)\n"))
    assert worker.run(plan(tmp_path, "x = 1\n"))["outcome"] == "passed"
    worker.send({"type": "cancel", "run": slow})
    assert worker.receive("result", slow)["result"]["outcome"] == "cancelled"


def test_the_end_of_the_input_ends_the_runs(tmp_path: Path) -> None:
    with WorkerClient() as worker:
        worker.receive("ready")
        run = worker.start(plan(tmp_path, "import os\nprint(os.getpid(), flush=True)\nwhile True:\n    x = 1\n"))
        worker.receive("phase", run)
        children = _descendants(worker.process.pid)
        assert len(children) >= 3
        worker.close()
        assert all(_gone(str(pid)) for pid in children)


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        below = [int(word) for word in (task / "children").read_text().split()]
        found += below + [child for each in below for child in _descendants(each)]
    return found


def test_a_killed_zygote_takes_its_runs_with_it(tmp_path: Path) -> None:
    with WorkerClient() as worker:
        worker.receive("ready")
        run = worker.start(plan(tmp_path, "while True:\n    x = 1\n"))
        worker.receive("phase", run)
        children = _descendants(worker.process.pid)
        worker.process.kill()
        assert all(_gone(str(pid)) for pid in children)


LAZY = """\
import collections.abc
import torch
class Lazy(collections.abc.Mapping):
    def __getitem__(self, key):
        raise RuntimeError("nothing is there yet")
    def __iter__(self):
        return iter(["a"])
    def __len__(self):
        return 1
values = Lazy()
torch.ones(3) @ torch.ones(4)
"""


def test_values_that_cannot_be_read_hide_no_fault(worker: WorkerClient, tmp_path: Path) -> None:
    result = worker.run(plan(tmp_path, LAZY))
    assert [(f["code"], f["at"]["line"]) for f in result["faults"]] == [("DG314", 11)]
    assert not [note for note in result["notes"] if "failed" in note]


def test_a_parser_that_is_installed_and_ends_the_program_wants_arguments(worker: WorkerClient, tmp_path: Path) -> None:
    folder = Path(sysconfig.get_path("purelib"))
    installed = next(path for path in folder.glob("*/__init__.py"))
    text = f"code = compile('raise SystemExit(2)', {str(installed)!r}, 'exec')\nexec(code)\n"
    result = worker.run(plan(tmp_path, text))
    assert (result["outcome"], [f["code"] for f in result["faults"]]) == ("no-inputs", ["DG901"])


@pytest.mark.parametrize(
    "wrong",
    [{"text": None}, {"text": 7}, {"path": ["p"]}, {"timeout": "soon"}, {"sys_path": "/"}, {"memory_limit": "much"}],
    ids=str,
)
def test_a_request_that_is_none_ends_alone(worker: WorkerClient, tmp_path: Path, wrong: dict[str, Any]) -> None:
    result = worker.run({**plan(tmp_path, "x = 1\n"), **wrong})
    assert result["outcome"] == "error"
    assert next(iter(wrong)) in result["notes"][0]
    assert worker.run(plan(tmp_path, "x = 1\n"))["outcome"] == "passed"


READERS = """
import sys

class UsageError(Exception):
    def show(self):
        print(self)

def parse(fields):
    words = sys.argv[1:]
    return build(fields, words)

def build(fields, words):
    if len(words) < fields:
        raise ValueError("Missing field: lr")

def call(function):
    words = sys.argv[1:]
    return function()

def main():
    report = None
    try:
        raise UsageError("Missing option --lr")
    except UsageError as error:
        report = error.show
    report()
    sys.exit(2)
"""


@pytest.mark.parametrize(
    ("body", "argv", "outcome", "words"),
    [
        ("readers.parse(1)", [], "no-inputs", f"{NO_ARGUMENTS}: Missing field: lr"),
        ("readers.parse(2)", ["x"], "no-inputs", "the program rejects its command line: Missing field: lr"),
        ("readers.call(lambda: readers.build(1, []))", [], "failed", "ValueError: Missing field: lr"),
        ("readers.build(1, [])", [], "failed", "ValueError: Missing field: lr"),
        ("readers.main()", [], "no-inputs", f"{NO_ARGUMENTS}: Missing option --lr"),
        (
            "import sys; sys.argv[3]",
            ["x"],
            "no-inputs",
            "the program rejects its command line: it reads more",
        ),
        ("import sys; len(sys.argv); sys.exit(1)", ["x"], "failed", "the program exits with status 1"),
    ],
)
def test_what_a_program_has_not_been_given_is_no_error_of_its_own(
    worker: WorkerClient, tmp_path: Path, body: str, argv: list[str], outcome: str, words: str
) -> None:
    installed = str(Path(sysconfig.get_path("purelib"), "readers", "__init__.py"))
    begin = (
        f"import sys, types\nreaders = types.ModuleType('readers')\ncode = compile({READERS!r}, {installed!r}, 'exec')"
    )
    text = f"{begin}\nexec(code, vars(readers))\n{body}\n"
    launched = {"kind": "script", "argv": ["x.py", *argv]}
    result = worker.run({**plan(tmp_path, text), "launch": launched})
    assert (result["outcome"], [f["message"][: len(words)] for f in result["faults"]]) == (outcome, [words])


BROKEN = """
import importlib.abc, importlib.util, sys

class Loader(importlib.abc.SourceLoader):
    def get_filename(self, name):
        return INSTALLED

    def get_data(self, path):
        return b"def fit(): raise ValueError('wrong')\\nif " + EARLY + b": raise RuntimeError('no operator x')"

class Finder:
    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, Loader()) if name == "brokenpkg" else None

sys.meta_path.append(Finder())
import brokenpkg
brokenpkg.fit()
"""


@pytest.mark.parametrize(("early", "outcome"), [(b"True", "missing-package"), (b"False", "failed")])
def test_a_package_that_fails_as_it_is_imported_is_no_fault_of_the_programs(
    worker: WorkerClient, tmp_path: Path, early: bytes, outcome: str
) -> None:
    installed = str(Path(sysconfig.get_path("purelib"), "brokenpkg", "__init__.py"))
    result = worker.run(plan(tmp_path, f"INSTALLED, EARLY = {installed!r}, {early!r}\n{BROKEN}"))
    assert (result["outcome"], bool(result["faults"])) == (outcome, outcome == "failed")
    assert outcome == "failed" or "`brokenpkg` cannot be imported in" in result["reason"]
