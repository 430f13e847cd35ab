"""What a user waits for after saving: a training step of a small CNN, dry-run on the simulated device, in the editor.

``python tests/bench/bench_dry_run.py [RUNS]`` prints the median from the save to the findings of the run, and how much
the server has grown by. With ``--phases`` it asks the worker itself, and prints how long each phase of a run takes.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from lsp_bench import median, p95, rss_mib
from lsp_client import JSON, Client, edit, params_of
from worker_client import WorkerClient, plan

ROOT = Path(__file__).parents[2]
BUDGET = 0.3
TEXT = """\
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3)
        self.conv2 = nn.Conv2d(16, 32, 3)
        self.head = nn.Linear(32 * 12 * 12, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.head(x.flatten(1))


def step(model, optimizer, images, labels):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    wrong = torch.arange(10, device=images.device)[labels + 00]
    return loss.detach(), wrong


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    images = torch.randn(16, 1, 28, 28, device=device)
    labels = torch.randint(0, 10, (16,), device=device)
    step(model, optimizer, images, labels)
"""
LINE = next(number for number, line in enumerate(TEXT.splitlines()) if "+ 00" in line)
COLUMN = TEXT.splitlines()[LINE].index("00")


class Saver:
    """Changes by how much the indices are wrong, and saves."""

    def __init__(self, folder: Path) -> None:
        given: JSON = {"debounce": 0, "trusted": True, "device": "sim", "interpreter": sys.executable}
        paths = os.pathsep.join(str(ROOT / name) for name in ("server", "analyzers"))
        command = [sys.executable, "-m", "drygrad", "server"]
        self.client = Client(command, env={"PYTHONPATH": paths}, settings=lambda item: given)
        self.client.initialize(folder, options=given)
        path = folder / "train.py"
        path.write_text(TEXT)
        self.uri = path.as_uri()
        self.client.open(self.uri, TEXT)

    def run(self) -> None:
        """Run it once, which pins it."""
        answer = self.client.command("drygrad.dryRun", {"uri": self.uri, "qualname": "step"})
        over: JSON = {}

        def ended(message: JSON) -> bool:
            status = params_of(message)
            over.update(status if message.get("method") == "drygrad/status" else {})
            last: JSON = over.get("lastRun") or {}
            return last.get("runId") == answer["runId"]

        self.client.wait(ended, timeout=120)
        sys.stdout.write(f"first run: {over['lastRun']['text']}\n")

    def save(self, number: int) -> float:
        """Make the indices wrong by a number, save, and return the seconds until the findings of the run are shown."""
        self.client.received.clear()
        self.client.change(self.uri, edit(LINE, COLUMN, LINE, COLUMN + 2, f"{number:02}"))
        since = time.perf_counter()
        self.client.save(self.uri)

        def shows(message: JSON) -> bool:
            items: list[JSON] = params_of(message).get("diagnostics") or []
            return any("is outside" in item["message"] for item in items)

        return self.client.wait_timed(shows, since=since)[0] - since


def phases(runs: int) -> int:
    """Print the medians of a run's phases, seen from outside: the first holds the fork and the sandbox."""
    spans: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder, WorkerClient(launcher=sandbox(folder)) as worker:
        worker.receive("ready")
        request = plan(Path(folder), TEXT, device="sim")
        worker.run(request)
        for _ in range(runs):
            last, name, run = time.perf_counter(), "before", worker.start(request)
            while name != "over":
                heard, now = worker.next_of(run), time.perf_counter()
                spans.setdefault(name, []).append(now - last)
                last, name = now, str(heard.get("phase", "over"))
    for name, times in spans.items():
        sys.stdout.write(f"{name:8} median {median(times) * 1000:5.1f} ms, p95 {p95(times) * 1000:5.1f} ms\n")
    return 0


def sandbox(folder: str) -> list[str]:
    """Return what stands before the worker's own command."""
    launcher = ROOT / "analyzers" / "drygrad" / "worker" / "sandbox"
    return [sys.executable, "-I", "-S", str(launcher), "--workspace", folder, "--"]


def main(runs: int) -> int:
    """Measure; the status is 1 where the median is over the budget."""
    with tempfile.TemporaryDirectory() as folder:
        saver = Saver(Path(folder))
        saver.run()
        for number in range(3):
            saver.save(20 + number)
        before = rss_mib(saver.client.process.pid)
        times = [saver.save(30 + number % 60) for number in range(runs)]
        grown = rss_mib(saver.client.process.pid) - before
        saver.client.stop()
    sys.stdout.write(
        f"save -> findings of the run: median {median(times) * 1000:.0f} ms, p95 {p95(times) * 1000:.0f} ms "
        f"over {runs}, budget {BUDGET * 1000:.0f} ms; the server grew by {grown:.1f} MiB\n"
    )
    return int(median(times) > BUDGET)


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:] if argument.isdecimal()]
    sys.exit((phases if "--phases" in sys.argv else main)(*numbers or [20]))
