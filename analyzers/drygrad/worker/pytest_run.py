"""Tests as ``pytest`` runs them, with their fixtures, parameters and settings; what fails in one is raised."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from types import CodeType
from typing import Any

from drygrad.worker.run import Run

_OURS = ("--assert=plain", "--capture=no", "-p", "no:cacheprovider", "-p", "no:drygrad", "--color=no")
"""Nothing is to rewrite the text of modules, what is printed is kept by us, and no run is to begin others."""
_OPTIONS = ("--drygrad-fail-on", "--drygrad-device", "--drygrad-time")
_LONGEST = 300
_NO_TESTS = 5


class NothingRan(Exception):
    """No test ran."""


class _Errors:
    """A plugin: it keeps the first error that a test, a fixture or a module of tests has ended with.

    It says which test runs, and takes what drygrad's own plugin for pytest, which is left out here, would be set by.
    """

    def __init__(self, run: Run, leading: Mapping[str, int]) -> None:
        self._run = run
        self._leading = leading
        self.first: BaseException | None = None
        self.first_test: str | None = None
        self.ran = 0
        self._collected: list[Any] = []

    def pytest_addoption(self, parser: Any) -> None:
        """Take the options of drygrad's plugin, which a project may set for all its sessions."""
        parser.addoption("--drygrad", action="store_true")
        for option in _OPTIONS:
            parser.addoption(option)

    def pytest_configure(self, config: Any) -> None:
        """Take its mark."""
        config.addinivalue_line("markers", "no_drygrad: the test is not repeated under instruments")

    def pytest_itemcollected(self, item: Any) -> None:
        """Hear of a test that was asked for."""
        self._collected.append(item)

    def pytest_collection_finish(self, session: Any) -> None:
        """Run what was asked for by name where the project's settings leave none of it, as of stages or slow tests."""
        if not session.items:
            session.items[:] = self._collected
        if self._leading:
            session.items.sort(key=self._nearness)

    def _nearness(self, item: Any) -> int:
        """Return over how many calls the nearest of the names leads that a test reads, or a method that it calls."""
        code = getattr(getattr(item, "function", None), "__code__", None)
        read = _read_in(code) if isinstance(code, CodeType) else frozenset[str]()
        own = (getattr(getattr(item, "cls", None), name, None) for name in read)
        codes = (getattr(each, "__code__", None) for each in own)
        read = read.union(*(_read_in(each) for each in codes if isinstance(each, CodeType)))
        return min((self._leading[name] for name in read & self._leading.keys()), default=len(self._leading) + 1)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Hear of a test that begins."""
        self._run.test = nodeid if len(nodeid) <= _LONGEST else None

    def pytest_runtest_logfinish(self) -> None:
        """Hear that a test has ended."""
        self._run.test = None

    def pytest_runtest_call(self, item: Any) -> None:
        """Count the tests that begin."""
        self.ran += 1

    def pytest_exception_interact(self, node: Any, call: Any, report: Any) -> None:
        """Hear of an error that nobody expects."""
        if self.first is None and call.excinfo is not None:
            self.first, self.first_test = call.excinfo.value, self._run.test


def _read_in(code: CodeType) -> frozenset[str]:
    """Return the names that code reads, those of attributes and of functions in it among them."""
    inner = (_read_in(each) for each in code.co_consts if isinstance(each, CodeType))
    return frozenset(code.co_names).union(*inner)


def run(run: Run, arguments: list[str], leading: Mapping[str, int] | None = None) -> None:
    """Run the tests that the words name. Raises what the first that fails has raised, and NothingRan.

    Those come first that read a name which leads over few calls to what is looked for.
    """
    pytest: Any = import_module("pytest")  # the user's, where there is one
    errors = _Errors(run, leading or {})
    side_by_side = ["-n0"] if find_spec("xdist") is not None else []
    status = int(pytest.main([*arguments, *_OURS, *side_by_side], plugins=[errors]))
    if errors.first is not None:
        run.test = errors.first_test
        raise errors.first
    if errors.ran == 0 or status == _NO_TESTS:
        raise NothingRan("pytest selects no test with these arguments")
    run.note(f"{errors.ran} test{'s' if errors.ran > 1 else ''} ran")
