"""Which tests are repeated together."""

from __future__ import annotations

from typing import Any

from drygrad.pytest_plugin.groups import MOST_TESTS, groups_of


def one(nodeid: str, seconds: float = 0.1, *, passed: bool = True) -> dict[str, Any]:
    return {"nodeid": nodeid, "passed": passed, "seconds": seconds}


def grouped(*given: dict[str, Any]) -> list[list[str]]:
    return [[test.nodeid for test in group.tests] for group in groups_of(given)]


def test_a_file_s_tests_run_together_and_failed_ones_alone() -> None:
    given = [one("a.py::x"), one("b.py::x"), one("a.py::y", passed=False), one("a.py::C::z[1]")]
    assert grouped(*given) == [["a.py::x", "a.py::C::z[1]"], ["a.py::y"], ["b.py::x"]]


def test_no_group_takes_long() -> None:
    given = [one("a.py::x", 6), one("a.py::y", 5), one("a.py::z", 50), one("a.py::w", 1)]
    assert grouped(*given) == [["a.py::x"], ["a.py::y"], ["a.py::z"], ["a.py::w"]]
    many = [one(f"a.py::t{number}", 0.0) for number in range(MOST_TESTS + 1)]
    assert [len(group) for group in grouped(*many)] == [MOST_TESTS, 1]


def test_a_group_may_take_more_time_than_its_tests_took() -> None:
    (group,) = groups_of([one("a.py::x", 4), one("a.py::y", 4)])
    assert group.timeout >= 180
