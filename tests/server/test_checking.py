"""The checker by itself: what it learns, and what it drops."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor, ThreadPoolExecutor

from faulty_analyzer import FaultyAnalyzer

from drygrad.lsp.checking import Checker
from drygrad.lsp.modules import Module, Part
from drygrad.settings import Settings
from drygrad.static.source import Source

URI = "file:///a.py"


class Host:
    """A session of one text."""

    def __init__(self, text: str) -> None:
        self.executor: Executor = ThreadPoolExecutor(1)
        self.text, self.version = text, 1
        self.accepted: list[list[str]] = []
        self.errors: list[Exception] = []

    def take(self, uri: str) -> Module:
        return Module.of_document(Part(uri, self.version, Source(self.text)))

    def accept(self, checker: Checker) -> None:
        self.accepted.append([finding.code for finding in checker.shown[URI].findings])

    def failed(self, error: Exception) -> None:
        self.errors.append(error)


def checker_of(host: Host) -> Checker:
    checker = Checker(URI, host, lambda: FaultyAnalyzer(Settings()))
    checker.edited(0)
    return checker


async def test_an_answer_to_a_question_is_used() -> None:
    host = Host("leak()\nrisk()\n")
    checker = checker_of(host)
    await checker.fresh()
    assert checker.questions == {"leak-found", "risk-found"}
    checker.learn({"leak-found": ("harmless",)})
    await checker.fresh()
    checker.learn({"leak-found": ("harmless",)})
    assert checker.is_fresh, "nothing new, nothing to check"
    assert host.accepted == [["DG101", "DG102"], ["DG102"]]


async def test_edits_wait_for_a_pause() -> None:
    host = Host("leak()\n")
    checker = checker_of(host)
    for host.version in range(2, 12):
        checker.edited(1.0)
        await asyncio.sleep(0)
    await asyncio.sleep(1.5)
    await checker.fresh()
    assert host.accepted == [["DG101"]]


async def test_a_closed_checker_is_silent() -> None:
    host = Host("leak()\n")
    checker = checker_of(host)
    checker.close()
    await checker.fresh()
    await asyncio.sleep(0.05)
    assert host.accepted == []


async def test_a_bug_leaves_the_last_good_findings() -> None:
    host = Host("leak()\n")
    checker = checker_of(host)
    await checker.fresh()
    host.text = "crash()\nleak()\n"
    checker.edited(0)
    await checker.fresh()
    assert host.accepted == [["DG101"], ["DG101"]]
    assert checker.shown[URI].findings[0].span.start.line == 2
    assert [str(error) for error in host.errors] == ["a bug in a rule"]


async def test_a_file_that_is_not_to_be_checked() -> None:
    host = Host("leak()\n")
    checker = Checker(URI, host, lambda: None)
    checker.edited(0)
    await checker.fresh()
    assert host.accepted == [[]]
