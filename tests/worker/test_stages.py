"""Third-party modules are imported once, ahead; those that start threads or fail are left to the runs."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from worker_client import WorkerClient, plan

from drygrad.dryrun import launch
from drygrad.worker.sandbox import landlock

ARMED = """
import os, resource, signal, subprocess
pid = os.getpid()
def tried(function, *arguments):
    try:
        function(*arguments)
    except OSError as error:
        return type(error).__name__
    return "done"
found = [tried(subprocess.run, ["true"]), tried(os.setsid), tried(os.kill, os.getppid(), signal.SIGCONT)]
found += [tried(resource.prlimit, os.getppid(), resource.RLIMIT_CORE, (0, 0))]
found += [tried(open, f"/proc/{os.getppid()}/mem", "rb")]
limited = resource.getrlimit(resource.RLIMIT_DATA)[0] != resource.RLIM_INFINITY
"""
MODULES = {
    "heavy_quiet": "import os\npid = os.getpid()\n",
    "heavy_threaded": "import os, threading, time\npid = os.getpid()\n"
    "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n",
    "heavy_armed": ARMED,
    "heavy_writing": "import os\nfrom pathlib import Path\npid = os.getpid()\n"
    "Path(os.environ['MARKED'], 'mark').write_text('x')\n",
    "heavy_fatal": "import os\nif not os.environ.get('IN_RUN'):\n    os._exit(3)\n",
}


def start(base: Path, layers: str = "auto") -> WorkerClient:
    """Start a worker in its sandbox, with the modules installed in a folder."""
    packages = Path(sysconfig.get_path("purelib", "posix_user", {"userbase": str(base)}))
    packages.mkdir(parents=True, exist_ok=True)
    for name, text in MODULES.items():
        (packages / f"{name}.py").write_text(text)
    environment = {"PYTHONUSERBASE": str(base), "PYTHONPATH": str(packages), "MARKED": str(base)}
    launcher = (sys.executable, "-I", "-S", str(launch.SANDBOX), "--layers", layers, "--")
    return WorkerClient(environment=environment, launcher=launcher)


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerClient]:
    with start(tmp_path_factory.mktemp("base")) as client:
        layers = client.receive("ready")["sandbox"]
        if layers["overlay"] is not True and layers["landlock"] is not True:
            pytest.skip("packages are imported ahead only where the kernel holds what they write")
        yield client


def output(worker: WorkerClient, folder: Path, text: str) -> str:
    result = worker.run(plan(folder, text))
    assert result["outcome"] == "passed", result
    return result["output"]["text"].strip()


def test_an_installed_module_is_imported_ahead_and_once(worker: WorkerClient, tmp_path: Path) -> None:
    text = "import os, heavy_quiet\nprint(heavy_quiet.pid == os.getpid(), heavy_quiet.pid)\n"
    first, second = output(worker, tmp_path, text), output(worker, tmp_path, text)
    assert first.startswith("False")
    assert first == second


def test_a_module_of_the_workspace_is_not(worker: WorkerClient, tmp_path: Path) -> None:
    (tmp_path / "heavy_quiet.py").write_text("import os\npid = os.getpid()\n")
    assert output(worker, tmp_path, "import os, heavy_quiet\nprint(heavy_quiet.pid == os.getpid())\n") == "True"


def test_a_module_that_starts_threads_is_imported_by_the_run(worker: WorkerClient, tmp_path: Path) -> None:
    text = "import os, threading, heavy_threaded\nprint(heavy_threaded.pid == os.getpid())\n"
    assert output(worker, tmp_path, text) == "True"


def test_a_module_that_ends_the_stage_is_imported_by_the_run(worker: WorkerClient, tmp_path: Path) -> None:
    text = "import os\nos.environ['IN_RUN'] = '1'\nimport heavy_fatal\nprint('here')\n"
    assert output(worker, tmp_path, text) == "here"


def test_a_module_that_is_imported_ahead_has_no_more_rights_than_a_run(worker: WorkerClient, tmp_path: Path) -> None:
    text = "import os, heavy_armed\nprint(heavy_armed.pid == os.getpid(), *heavy_armed.found, heavy_armed.limited)\n"
    by_stage, program, session, signalled, limit, memory, limited = output(worker, tmp_path, text).split()
    assert by_stage == "False"
    assert limited == "True"
    assert {program, session, limit, memory} == {"PermissionError"}
    assert signalled == ("PermissionError" if landlock.version() >= 6 else signalled)


@pytest.mark.slow
@pytest.mark.parametrize("layers", ["seccomp", "none"])
def test_where_the_kernel_holds_no_files_the_run_imports(tmp_path: Path, layers: str) -> None:
    with start(tmp_path, layers) as client:
        client.receive("ready")
        text = "import os, heavy_writing\nprint(heavy_writing.pid == os.getpid())\n"
        assert output(client, tmp_path, text) == "True"
    assert not (tmp_path / "mark").exists()
