"""Tests as ``pytest`` runs them, with their fixtures, parameters and settings; what fails in one is raised."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from drygrad.worker.run import Run

_OURS = ("--assert=plain", "--capture=no", "-p", "no:cacheprovider", "--color=no")
"""Nothing is to rewrite the text of modules, and what is printed is kept by us."""
_NO_TESTS = 5


class NothingRan(Exception):
    """No test ran."""


class _Errors:
    """A plugin: it keeps the first error that a test, a fixture or a module of tests has ended with."""

    def __init__(self) -> None:
        self.first: BaseException | None = None
        self.ran = 0

    def pytest_runtest_call(self, item: Any) -> None:
        """Count the tests that begin."""
        self.ran += 1

    def pytest_exception_interact(self, node: Any, call: Any, report: Any) -> None:
        """Hear of an error that nobody expects."""
        if self.first is None and call.excinfo is not None:
            self.first = call.excinfo.value


def run(run: Run, arguments: list[str]) -> None:
    """Run the tests that the words name. Raises what the first that fails has raised, and NothingRan."""
    pytest: Any = import_module("pytest")  # the user's, where there is one
    errors = _Errors()
    side_by_side = ["-n0"] if find_spec("xdist") is not None else []
    status = int(pytest.main([*arguments, *_OURS, *side_by_side], plugins=[errors]))
    if errors.first is not None:
        raise errors.first
    if errors.ran == 0 or status == _NO_TESTS:
        raise NothingRan("pytest runs no test with these arguments")
    run.note(f"{errors.ran} test{'s' if errors.ran > 1 else ''} ran")
