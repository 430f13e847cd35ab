"""``pytest --drygrad``: what the tests run is run again in the sandbox, under instruments; findings are test reports.

pytest loads this in every session, so nothing of drygrad's is imported here: the runs are the work of a process of its
own (``driver.py``), which begins when all tests have ended. With pytest-xdist, the controller alone starts it.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Generator, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

MARK = "no_drygrad"
DRIVER = [sys.executable, "-m", "drygrad.pytest_plugin.driver"]
"""What repeats the tests."""
SEVERITIES = ("error", "warning", "info", "hint")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Say what can be set."""
    group = parser.getgroup("drygrad", "PyTorch faults that the tests run into (drygrad)")
    group.addoption("--drygrad", action="store_true", help="repeat the tests in a sandbox, under instruments")
    group.addoption(
        "--drygrad-fail-on",
        choices=(*SEVERITIES, "never"),
        default="warning",
        help="lowest severity that counts as a failed test (default: warning)",
    )
    group.addoption(
        "--drygrad-device",
        choices=("auto", "cuda", "sim", "cpu"),
        help="where they run (default: auto)",
    )
    group.addoption(
        "--drygrad-time",
        type=float,
        default=300.0,
        metavar="S",
        help="seconds for all of it (default: 300)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin to listen, where that is asked for, in the process that hears of all tests."""
    config.addinivalue_line("markers", f"{MARK}: the test is not repeated under instruments by --drygrad")
    if config.getoption("drygrad") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Repeating(config), "drygrad-repeating")


@dataclass
class Test:
    """One test as the session ran it."""

    nodeid: str
    passed: bool = True
    seconds: float = 0.0
    location: tuple[str, int | None, str] = ("", None, "")


@dataclass
class Told:
    """A finding as the text of a report; ``reprcrash`` is what the last lines of a session say of it."""

    text: str
    reprcrash: Any = None

    def __str__(self) -> str:
        return self.text

    def toterminal(self, writer: Any) -> None:
        """Write it as a test's failure."""
        writer.line(self.text)


@dataclass
class _Crash:
    message: str
    path: str = ""
    lineno: int = 0


@dataclass
class Repeating:
    """Hears how the tests end, has them repeated, and tells what was seen."""

    config: pytest.Config
    tests: dict[str, Test] = field(default_factory=dict[str, Test])
    findings: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    notes: list[str] = field(default_factory=list[str])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that has passed or failed; what was skipped, or may fail, is not repeated."""
        if MARK in report.keywords or report.skipped or hasattr(report, "wasxfail"):
            self.tests.pop(report.nodeid, None)
        elif report.when == "call" and not isinstance(report.longrepr, Told):
            self.tests[report.nodeid] = Test(report.nodeid, report.passed, report.duration, report.location)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, Any, None]:
        """Repeat the tests when all have ended; what is grave enough fails the session."""
        outcome = yield
        if outcome.excinfo is not None or session.config.option.collectonly or not self.tests:
            return
        for told in self._told():
            if told["event"] == "note":
                self.notes.append(told["text"])
            else:
                self.findings.append(told)
                self._report(told)

    def _told(self) -> Iterator[dict[str, Any]]:
        """Yield what the process that repeats the tests says, line by line."""
        ours = Path(__file__).parent  # where no module of the project's stands before one that the work imports
        work = subprocess.Popen(
            DRIVER, cwd=ours, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        assert work.stdin
        assert work.stdout
        try:
            with contextlib.suppress(BrokenPipeError):
                work.stdin.write(json.dumps(self._asked()) + "\n")
                work.stdin.flush()
            for line in work.stdout:
                yield json.loads(line)
        finally:
            work.stdin.close()  # what is still running ends with it
            work.stdout.close()
            if work.wait():
                self.notes.append(f"the process that repeats the tests has ended with status {work.returncode}")

    def _asked(self) -> dict[str, Any]:
        config = self.config
        options = [f"--rootdir={config.rootpath}"]
        if config.inipath is not None:
            options += ["-c", str(config.inipath)]
        if mode := config.getoption("importmode", None):
            options.append(f"--import-mode={mode}")
        return {
            "root": str(config.rootpath),
            "folder": str(config.invocation_params.dir),
            "options": options,
            "tests": [asdict(test) for test in self.tests.values()],
            "device": config.getoption("drygrad_device"),
            "seconds": config.getoption("drygrad_time"),
        }

    def _report(self, told: dict[str, Any]) -> None:
        least = self.config.getoption("drygrad_fail_on")
        if least == "never" or SEVERITIES.index(told["severity"]) > SEVERITIES.index(least):
            return
        test = self.tests[told["nodeid"]]
        path, line, name = test.location
        crash = _Crash(f"drygrad: {told['summary']}")
        report = pytest.TestReport(
            nodeid=test.nodeid,
            location=(path, line, f"{name} (drygrad)"),
            keywords={},
            outcome="failed",
            longrepr=Told(told["text"], crash),  # pyright: ignore[reportArgumentType]
            when="call",
        )
        self.config.hook.pytest_runtest_logreport(report=report)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Tell what has failed no test, and what could not be repeated."""
        if not self.findings and not self.notes:
            self.notes.append("found nothing" if self.tests else "no test was repeated")
        terminalreporter.section("drygrad")
        least = self.config.getoption("drygrad_fail_on")
        for told in self.findings:
            mild = least == "never" or SEVERITIES.index(told["severity"]) > SEVERITIES.index(least)
            terminalreporter.write_line(told["text"] if mild else told["summary"])
        for note in self.notes:
            terminalreporter.write_line(note)
