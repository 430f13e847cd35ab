"""``pytest --drygrad``: what is repeated, and what becomes of what is told. A script stands for the runs."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from drygrad import pytest_plugin

pytest_plugins = ["pytester"]

TESTS = """\
import pytest


def test_passes():
    pass


def test_fails():
    assert 0


@pytest.mark.no_drygrad
def test_marked():
    pass


@pytest.mark.skip
def test_skipped():
    pass


@pytest.mark.xfail
def test_may_fail():
    assert 0


@pytest.mark.parametrize("n", [1, 2])
def test_several(n):
    pass
"""
DRIVER = """\
import json, pathlib, sys
asked = json.loads(sys.stdin.readline())
(pathlib.Path(__file__).parent / "asked.json").write_text(json.dumps(asked))
for test in asked["tests"]:
    if test["nodeid"].endswith(("test_passes", "[2]")):
        severity = "error" if "passes" in test["nodeid"] else "info"
        told = {"nodeid": test["nodeid"], "severity": severity, "summary": f"m.py:1:1: {severity}[DG1]: seen"}
        print(json.dumps({"event": "finding", **told, "text": f"all of {severity}"}), flush=True)
if len(asked["tests"]) > 1:
    print(json.dumps({"event": "note", "text": "2 tests were not repeated"}), flush=True)
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    pytester.makepyfile(test_them=TESTS)
    driver = pytester.path / "driver.py"
    driver.write_text(DRIVER)
    monkeypatch.setattr(pytest_plugin, "DRIVER", [sys.executable, str(driver)])
    return pytester


def repeated(project: pytest.Pytester) -> list[str]:
    asked: dict[str, Any] = json.loads((project.path / "asked.json").read_text())
    return [test["nodeid"].partition("::")[2] for test in asked["tests"]]


WANTED = ["test_passes", "test_fails", "test_several[1]", "test_several[2]"]


def test_a_finding_is_a_failed_test(project: pytest.Pytester) -> None:
    result = project.runpytest_inprocess("--drygrad", "--junitxml=junit.xml", "-o", "junit_family=xunit1")
    assert result.ret == 1
    assert repeated(project) == WANTED
    result.assert_outcomes(passed=4, failed=2, skipped=1, xfailed=1)
    result.stdout.fnmatch_lines(
        [
            "*_ test_passes (drygrad) _*",
            "all of error",
            "*= drygrad =*",
            "m.py:1:1: error?DG1?: seen",
            "all of info",
            "2 tests were not repeated",
            "FAILED test_them.py::test_passes - drygrad: m.py:1:1: error?DG1?: seen",
        ]
    )
    cases = ET.parse(project.path / "junit.xml").iter("testcase")
    failures = [(case.get("name"), failure.get("message")) for case in cases for failure in case.iter("failure")]
    assert ("test_passes", "drygrad: m.py:1:1: error[DG1]: seen") in failures


@pytest.mark.parametrize(("least", "failed"), [("info", 3), ("hint", 3), ("never", 1)])
def test_the_gravity_that_fails_is_chosen(project: pytest.Pytester, least: str, failed: int) -> None:
    result = project.runpytest_inprocess("--drygrad", f"--drygrad-fail-on={least}")
    assert result.parseoutcomes()["failed"] == failed


def test_findings_alone_fail_a_session(project: pytest.Pytester) -> None:
    assert project.runpytest_inprocess("--drygrad", "-k", "passes").ret == 1
    assert project.runpytest_inprocess("--drygrad", "-k", "passes", "--drygrad-fail-on=never").ret == 0


def test_nothing_is_done_without_the_flag(project: pytest.Pytester) -> None:
    result = project.runpytest_inprocess("--strict-markers")
    assert not (project.path / "asked.json").exists()
    result.assert_outcomes(passed=4, failed=1, skipped=1, xfailed=1)
    assert "= drygrad =" not in result.stdout.str()


@pytest.mark.slow
def test_the_controller_alone_repeats_what_processes_have_run(project: pytest.Pytester) -> None:
    result = project.runpytest_inprocess("--drygrad", "--numprocesses=2")
    assert sorted(repeated(project)) == sorted(WANTED)
    result.assert_outcomes(passed=4, failed=2, skipped=1, xfailed=1)


def test_the_settings_of_the_session_go_along(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\naddopts = --drygrad --drygrad-device=cpu --import-mode=importlib\n")
    project.runpytest_inprocess("-k", "passes")
    asked = json.loads((project.path / "asked.json").read_text())
    assert (asked["root"], asked["device"]) == (str(project.path), "cpu")
    assert asked["options"][:-1] == [f"--rootdir={project.path}", "-c", str(project.path / "tox.ini")]
    assert asked["options"][-1] == "--import-mode=importlib"


@pytest.mark.parametrize(
    ("tests", "said"),
    [("def test_right():\n    pass\n", "found nothing"), ("import absent_module\n", "no test was repeated")],
)
def test_what_came_of_it_is_told_even_if_nothing_did(project: pytest.Pytester, tests: str, said: str) -> None:
    project.makepyfile(test_them=tests)
    result = project.runpytest_inprocess("--drygrad")
    result.stdout.fnmatch_lines(["*= drygrad =*", said])


def test_a_process_that_fails_is_told(project: pytest.Pytester) -> None:
    (project.path / "driver.py").write_text("raise SystemExit(3)\n")
    result = project.runpytest_inprocess("--drygrad", "-k", "passes")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["the process that repeats the tests has ended with status 3"])


def test_pytest_loads_nothing_of_drygrad_without_the_flag(project: pytest.Pytester) -> None:
    project.makeconftest(
        "import sys\ndef pytest_sessionfinish():\n"
        "    print('LOADED', sorted(name for name in sys.modules if name.startswith('drygrad')))\n"
    )
    result = project.runpytest_subprocess("-s", "-k", "passes")
    assert "LOADED ['drygrad', 'drygrad.pytest_plugin']" in result.stdout.str()
