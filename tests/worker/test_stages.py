"""Third-party modules are imported once, ahead; those that start threads or fail are left to the runs."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from worker_client import WorkerClient, plan

from drygrad.dryrun import launch

MODULES = {
    "heavy_quiet": "import os\npid = os.getpid()\n",
    "heavy_threaded": "import os, threading, time\npid = os.getpid()\n"
    "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n",
    "heavy_fatal": "import os\nif not os.environ.get('IN_RUN'):\n    os._exit(3)\n",
}


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerClient]:
    base = tmp_path_factory.mktemp("base")
    packages = Path(sysconfig.get_path("purelib", "posix_user", {"userbase": str(base)}))
    packages.mkdir(parents=True)
    for name, text in MODULES.items():
        (packages / f"{name}.py").write_text(text)
    environment = {"PYTHONUSERBASE": str(base), "PYTHONPATH": str(packages)}
    launcher = (sys.executable, "-I", "-S", str(launch.SANDBOX), "--")
    with WorkerClient(environment=environment, launcher=launcher) as client:
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
