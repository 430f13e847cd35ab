"""Comments that silence findings, and those that have none to silence."""

from __future__ import annotations

import ast
from typing import ClassVar

import pytest

from drygrad.fixing import apply_edits
from drygrad.model import Finding, Rule, Span
from drygrad.settings import Settings
from drygrad.static import suppression
from drygrad.static.source import Source


class First(Rule):
    code, name, since = "DG101", "first", "0.1"


class Second(Rule):
    code, name, since = "DG304", "second", "0.1"
    torch: ClassVar[tuple[str | None, str | None]] = ("2.0", "2.3")


@pytest.fixture(autouse=True)
def two_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suppression, "all_rules", lambda: (First, Second))
    monkeypatch.setattr(suppression, "SEEN_IN_RUNS", frozenset[str]())


def findings_of(text: str, code: str = "DG101") -> list[Finding]:
    """Return a finding at each call of ``bad``."""
    source = Source(text)
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name) and node.id == "bad"]
    return [Finding(code, "first", "bad", "warning", source.span(node)) for node in calls]


def left(text: str, code: str = "DG101", settings: Settings | None = None) -> list[str]:
    """Return the codes that remain after the comments of a text were heard."""
    source = Source(text)
    found = suppression.apply(source, ast.parse(text), findings_of(text, code), settings or Settings())
    return [finding.code for finding in found]


@pytest.mark.parametrize(
    "text",
    [
        "bad()  # drygrad: ignore[DG101]\n",
        "bad()  # drygrad:ignore[DG1]\n",
        "bad()  # drygrad: ignore[first]\n",
        "bad()  # drygrad: ignore[dg304, DG101] on purpose\n",
        "bad()  # drygrad: ignore\n",
        "bad()  # type: ignore  # drygrad: ignore[DG101]\n",
        "bad()  # noqa: DG101\n",
        "bad()  # NOQA: E501, DG101\n",
        "f(\n    bad(),\n    1,\n)  # drygrad: ignore[DG101]\n",
        "f(\n    bad(),\n    # drygrad: ignore[DG101]\n    1,\n)\n",
        "f(  # drygrad: ignore[DG101]\n    bad(),\n)\n",
        "if bad():  # drygrad: ignore[DG101]\n    pass\n",
        "if (\n    bad()\n):  # drygrad: ignore[DG101]\n    pass\n",
        "def f(\n    x=bad(),\n):  # drygrad: ignore[DG101]\n    pass\n",
        "@bad  # drygrad: ignore[DG101]\ndef f():\n    pass\n",
        "try:\n    pass\nexcept bad:  # drygrad: ignore[DG101]\n    pass\n",
        "def f():\n    with x:\n        bad()  # drygrad: ignore[DG101]\n",
        "# drygrad: ignore-file[DG101]\nbad()\n",
        "bad()\n# drygrad: ignore-file\n",
        "x = '''\n''' + bad()  # drygrad: ignore[DG101]\n",
        "bad()  # drygrad: ignore[DG101]\r\n",
        "x = '😀', bad()  # drygrad: ignore[DG101]",
        "match x:\n    case bad.y:  # drygrad: ignore[DG101]\n        pass\n",
    ],
)
def test_silenced(text: str) -> None:
    assert [c for c in left(text) if c == "DG101"] == []


@pytest.mark.parametrize(
    "text",
    [
        "bad()  # drygrad: ignore[DG304]\n",
        "bad()  # noqa\n",
        "bad()  # noqa: E501\n",
        "bad()  # drygrad: ignored\n",
        "bad()  # drygrad: ignore[DG101\n",
        "bad()  # drygrad: ignore-line\n",
        "bad()\n# drygrad: ignore[DG101]\n",
        "# drygrad: ignore[DG101]\nbad()\n",
        "if x:  # drygrad: ignore[DG101]\n    bad()\n",
        "for x in y:\n    # drygrad: ignore[DG101]\n    bad()\n",
        "bad('# drygrad: ignore[DG101]')\n",
        "bad('''\n# drygrad: ignore-file[DG101]\n''')\n",
        "x = '# drygrad: ignore-file'\nbad()\n",
    ],
)
def test_not_silenced(text: str) -> None:
    assert "DG101" in left(text)


def test_without_comments_the_text_is_not_tokenized(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(suppression.tokenize, "generate_tokens")
    assert left("bad()  # a plain comment\n") == ["DG101"]


UNUSED = [
    ("x = 1  # drygrad: ignore[DG101]\n", "x = 1\n"),
    ("x = 1  # drygrad: ignore[DG101, DG304]\n", "x = 1\n"),
    ("x = 1  # drygrad: ignore[DG101]  # type: ignore\n", "x = 1  # type: ignore\n"),
    ("x = 1  # type: ignore  # drygrad: ignore[DG101]\n", "x = 1  # type: ignore\n"),
    ("x = 1  # drygrad: ignore[DG101] they alias\n", "x = 1  # they alias\n"),
    ("bad()  # drygrad: ignore[DG101, DG304]\n", "bad()  # drygrad: ignore[DG101]\n"),
    ("bad()  # drygrad: ignore[DG304, DG101] why\n", "bad()  # drygrad: ignore[DG101] why\n"),
    ("# drygrad: ignore[DG101]\nx = 1\n", "x = 1\n"),
    ("if x:\r\n    # drygrad: ignore[DG1]\r\n    y\r\n", "if x:\r\n    y\r\n"),
    ("x = 1\n# drygrad: ignore[DG101]", "x = 1\n"),
]


@pytest.mark.parametrize(("text", "fixed"), UNUSED)
def test_an_unused_code_is_reported_with_a_fix_that_settles_it(text: str, fixed: str) -> None:
    settings = Settings(target_torch=(2, 2))
    source = Source(text)
    found = suppression.apply(source, ast.parse(text), findings_of(text), settings)
    (finding,) = [f for f in found if f.code == "DG904"]
    assert (finding.severity, finding.tags) == ("hint", ("unnecessary",))
    assert finding.fixes[0].safety == "safe"
    after = apply_edits(source, finding.fixes[0].edits)
    assert after == fixed
    assert "DG904" not in left(after, settings=settings)


@pytest.mark.parametrize(
    "text",
    [
        "bad()  # drygrad: ignore[DG101]\n",
        "x = 1  # drygrad: ignore\n",
        "x = 1  # noqa: DG101\n",
        "x = 1  # drygrad: ignore[DG999]\n",
        "# drygrad: ignore-file[DG101]\n",
        "x = '# drygrad: ignore[DG101]'\n",
    ],
)
def test_used_general_and_unknown_ones_are_left_alone(text: str) -> None:
    assert left(text) == []


def test_a_rule_that_is_off_could_not_have_used_it() -> None:
    text = "x = 1  # drygrad: ignore[DG101]\n"
    assert left(text, settings=Settings(ignore=("DG1",))) == []
    assert left(text, settings=Settings(ignore=("DG904",))) == []
    assert left("x = 1  # drygrad: ignore[DG304]\n", settings=Settings(target_torch=(2, 3))) == []
    assert left("x = 1  # drygrad: ignore[DG304]\n", settings=Settings(target_torch=(2, 2))) == ["DG904"]


def test_the_severity_of_a_report_can_be_set() -> None:
    text = "x = 1  # drygrad: ignore[DG101]\n"
    (finding,) = suppression.apply(Source(text), ast.parse(text), [], Settings(severity={"DG904": "error"}))
    assert (finding.severity, finding.span) == ("error", Span.of(1, 7, 1, 31))
