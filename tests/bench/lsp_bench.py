"""Measures a language server from outside: what a user waits for, and what the machine pays."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "support"))

from lsp_client import JSON, Client, debounced, edit, params_of


@dataclass(frozen=True)
class Subject:
    """A server to measure; ``mark`` is a line in which it finds a fault."""

    name: str
    command: Sequence[str]
    mark: str
    debounce: int = 0


@dataclass
class Times:
    """Seconds measured of each kind; ``rss`` in MiB. ``edit_cpu`` does not depend on what else the machine does."""

    cold: list[float] = field(default_factory=list[float])
    edit: list[float] = field(default_factory=list[float])
    edit_cpu: list[float] = field(default_factory=list[float])
    burst: list[float] = field(default_factory=list[float])
    burst_results: list[int] = field(default_factory=list[int])
    hover: list[float] = field(default_factory=list[float])
    action: list[float] = field(default_factory=list[float])
    stop: list[float] = field(default_factory=list[float])
    rss: list[float] = field(default_factory=list[float])

    def add(self, other: Times) -> None:
        """Take over the measurements of another run."""
        for name, values in vars(other).items():
            getattr(self, name).extend(values)


def median(values: Sequence[float]) -> float:
    """Return the middle value."""
    return statistics.median(values) if values else float("nan")


def p95(values: Sequence[float]) -> float:
    """Return the value that 95 of 100 stay below."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))] if ordered else float("nan")


def rss_mib(pid: int) -> float:
    """Return the resident memory of one process (Linux)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return float("nan")


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has taken (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Typist:
    """Moves a fault from blank line to blank line of a text, so that no result can be mistaken for an older one."""

    def __init__(self, subject: Subject, text: str) -> None:
        self.mark = subject.mark
        lines = text.split("\n")
        self.places = [n for n in range(30, len(lines) - 8) if not lines[n] and not lines[n - 1]]
        self.at = self.places[0]
        lines[self.at] = self.mark
        self.uri = "file:///bench/train.py"
        self.client = Client(subject.command, settings=debounced(subject.debounce))
        self.client.initialize(options={"debounce": subject.debounce})
        self.client.open(self.uri, "\n".join(lines))
        self.turn = self._in_turn()

    def _in_turn(self) -> Iterator[int]:
        step = max(len(self.places) // 3, 1)
        n = 0
        while True:
            n = (n + step + 1) % len(self.places)
            if self.places[n] != self.at:
                yield self.places[n]

    def type(self) -> float:
        """Move the fault; return when."""
        old, self.at = self.at, next(self.turn)
        since = time.perf_counter()
        self.client.change(self.uri, edit(old, 0, old, len(self.mark), ""), edit(self.at, 0, self.at, 0, self.mark))
        return since

    def shown(self, since: float) -> float:
        """Wait until the fault is shown where it is now; return when."""
        version = self.client.versions[self.uri]

        def shows(message: JSON) -> bool:
            params = params_of(message)
            if message.get("method") != "textDocument/publishDiagnostics" or params.get("version") != version:
                return False
            return self.at in {item["range"]["start"]["line"] for item in params["diagnostics"]}

        return self.client.wait_timed(shows, since=since)[0]

    def results(self) -> int:
        """Return how many results came so far."""
        return len(self.client.sent("textDocument/publishDiagnostics"))


def timed(call: Callable[[], Any]) -> float:
    """Return how long a call takes."""
    since = time.perf_counter()
    call()
    return time.perf_counter() - since


def measure(subject: Subject, text: str, *, edits: int = 50, bursts: int = 3) -> Times:
    """Measure one run of a server."""
    times = Times()
    typist = Typist(subject, text)
    client = typist.client
    times.cold.append(typist.shown(0.0) - client.started)
    for _ in range(3):
        typist.shown(typist.type())
    cpu = cpu_seconds(client.process.pid)
    for _ in range(edits):
        time.sleep(0.05)
        since = typist.type()
        times.edit.append(typist.shown(since) - since)
    times.edit_cpu.append((cpu_seconds(client.process.pid) - cpu) / edits)
    for _ in range(bursts):
        time.sleep(0.5)
        before, since = typist.results(), 0.0
        for _ in range(20):
            time.sleep(0.05)
            since = typist.type()
        times.burst.append(typist.shown(since) - since)
        times.burst_results.append(typist.results() - before)
    _measure_requests(typist, times)
    times.rss.append(rss_mib(client.process.pid))
    times.stop.append(timed(client.stop))
    return times


def _measure_requests(typist: Typist, times: Times) -> None:
    client, uri = typist.client, typist.uri
    published = client.sent("textDocument/publishDiagnostics")[-1]["diagnostics"]
    here = [item for item in published if item["range"]["start"]["line"] == typist.at]
    for _ in range(20):
        if client.capabilities.get("hoverProvider"):
            times.hover.append(timed(lambda: client.hover(uri, typist.at, here[0]["range"]["start"]["character"])))
        if client.capabilities.get("codeActionProvider"):
            times.action.append(timed(lambda: client.actions(uri, here)))


def measure_memory(subject: Subject, text: str, edits: int) -> list[float]:
    """Return the resident memory after each tenth of so many edits."""
    typist, found = Typist(subject, text), list[float]()
    typist.shown(0.0)
    for n in range(1, edits + 1):
        since = typist.type()
        if n % 10 == 0:
            typist.shown(since)
            typist.client.received.clear()
        if n % max(edits // 10, 1) == 0:
            found.append(rss_mib(typist.client.process.pid))
    typist.client.stop()
    return found
