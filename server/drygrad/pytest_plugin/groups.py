"""Which tests are repeated together: those of a file, in so many runs that none takes long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

MOST_TESTS = 100
MOST_SECONDS = 10.0
"""Of a group, as the session has run it: instruments take a multiple of that."""
_SLOWER = 10
_LEAST = 120.0


@dataclass(frozen=True)
class Test:
    """One test as the session ran it."""

    nodeid: str
    passed: bool
    seconds: float

    @property
    def file(self) -> str:
        """The file that has it, from the root."""
        return self.nodeid.partition("::")[0]


@dataclass(frozen=True)
class Group:
    """Tests of one file that one run repeats."""

    tests: tuple[Test, ...]

    @property
    def file(self) -> str:
        """Their file."""
        return self.tests[0].file

    @property
    def timeout(self) -> float:
        """The seconds that their run may take."""
        return _LEAST + _SLOWER * sum(test.seconds for test in self.tests)

    @property
    def alone(self) -> bool:
        """Whether it is one test: what its run has seen is seen of nothing else."""
        return len(self.tests) == 1


def groups_of(given: Sequence[dict[str, Any]]) -> Iterator[Group]:
    """Yield the groups of a session's tests, in their order; one that has failed is repeated alone.

    A run tells one error only, and a test that leaves something behind must not be another one's fault.
    """
    by_file: dict[str, list[Test]] = {}
    for one in given:
        test = Test(one["nodeid"], one["passed"], one["seconds"])
        by_file.setdefault(test.file, []).append(test)
    for tests in by_file.values():
        yield from _parted([test for test in tests if test.passed])
        yield from (Group((test,)) for test in tests if not test.passed)


def _parted(tests: Sequence[Test]) -> Iterator[Group]:
    part: list[Test] = []
    for test in tests:
        if part and (len(part) == MOST_TESTS or sum(t.seconds for t in (*part, test)) > MOST_SECONDS):
            yield Group(tuple(part))
            part = []
        part.append(test)
    if part:
        yield Group(tuple(part))
