"""Texts as they are while one types, and texts that nobody would type: no crash, no hang, the same findings again."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drygrad.static.engine import Analysis, Analyzer
from drygrad.static.registry import all_rules
from drygrad.static.source import Source, SourceError, decode

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
STEP = 37
PATIENCE = 20.0
"""Seconds that one check of a hostile text may take on a busy machine; a hang takes longer."""

PRELUDE = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
PROGRAMS = [PRELUDE + dedent(invalid.text) for rule in all_rules() for invalid in rule.INVALID]


def real_files() -> Iterator[Path]:
    yield from sorted((ROOT / "examples").glob("*.py"))
    torch = importlib.util.find_spec("torch")
    if torch is not None and torch.origin is not None:
        package = Path(torch.origin).parent
        yield from (package / "nn" / "utils" / "clip_grad.py", package / "nn" / "modules" / "dropout.py")


def check(text: str) -> Analysis:
    return Analyzer().check(Source(text))


def without_last_line(text: str) -> str:
    return text[: text.rfind("\n") + 1]


@pytest.mark.parametrize("path", list(real_files()), ids=lambda path: path.name)
def test_every_prefix_of_a_real_file_is_survived(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    typed = Analyzer()
    last = ""
    for end in range(0, len(text), STEP):
        typed.check(Source(text[:end]))
        complete = without_last_line(text[:end])
        if complete != last:
            typed.check(Source(complete))
        last = complete
    assert typed.check(Source(text)).findings == check(text).findings


@st.composite
def versions(draw: st.DrawFn) -> list[str]:
    """Draw a program and what it becomes line by line."""
    lines = draw(st.sampled_from(PROGRAMS)).splitlines(keepends=True)
    texts = ["".join(lines)]
    for _ in range(draw(st.integers(1, 4))):
        first, second = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        match draw(st.sampled_from(("delete", "duplicate", "swap", "indent", "cut"))):
            case "delete" if len(lines) > 1:
                del lines[first]
            case "duplicate":
                lines.insert(second, lines[first])
            case "swap":
                lines[first], lines[second] = lines[second], lines[first]
            case "indent":
                lines[first] = "    " + lines[first]
            case _:
                lines[first] = lines[first][: len(lines[first]) // 2].rstrip() + "\n"
        texts.append("".join(lines))
    return texts


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(versions())
def test_mutations_are_survived_and_give_what_a_fresh_analyzer_finds(texts: list[str]) -> None:
    kept = Analyzer()
    for text in texts:
        analysis, fresh = kept.check(Source(text)), check(text)
        assert analysis.findings == fresh.findings
        assert (analysis.error is None) == (fresh.error is None)


NESTED = {
    "parentheses": ("(", "x", ")"),
    "lists": ("[", "", "]"),
    "calls": ("torch.relu(", "x", ")"),
    "sums": ("x + ", "x", ""),
    "methods": ("", "x", ".relu()"),
    "subscripts": ("", "x", "[0]"),
    "negations": ("-", "x", ""),
    "conditions": ("x if y else ", "z", ""),
    "powers": ("x ** ", "2", ""),
}
"""What is repeated before and after the innermost expression."""


@pytest.mark.parametrize("depth", [1_000, 50_000])
@pytest.mark.parametrize("kind", NESTED)
def test_deep_nesting_is_read_or_refused(kind: str, depth: int) -> None:
    before, innermost, after = NESTED[kind]
    begin = time.monotonic()
    analysis = check(f"import torch\nx = torch.ones(3)\ny = {before * depth}{innermost}{after * depth}\n")
    assert time.monotonic() - begin < PATIENCE
    assert analysis.error is None or "nest" in analysis.error.message or "parenthes" in analysis.error.message


def test_a_huge_file_is_refused_with_its_size() -> None:
    analysis = check("import torch\n" + "x = torch.ones(3)\n" * 600_000)
    assert analysis.error is not None
    assert "10,800,013 characters" in analysis.error.message


def test_a_long_line_is_read() -> None:
    call = "torch.nn.functional.cross_entropy(torch.ones(2, 3).softmax(-1), torch.ones(2).long())"
    padding = ", ".join(["0"] * 2_500)
    analysis = check(f"import torch\nx = [{padding}, {call}]\n")
    assert [(finding.code, finding.span.start.column > 5_000) for finding in analysis.findings] == [("DG304", True)]


@pytest.mark.parametrize("encoding", ["latin-1", "cp1251", "utf-8"])
def test_the_declared_encoding_is_obeyed(encoding: str) -> None:
    word = "Привет" if encoding == "cp1251" else "Größe"
    text = f"# -*- coding: {encoding} -*-\nimport torch\ntext = '{word}'\n"
    assert decode(text.encode(encoding)) == text
    assert check(text).error is None


def test_a_byte_order_mark_moves_no_position() -> None:
    text = (
        "import torch\nF = torch.nn.functional\nF.cross_entropy(torch.ones(2, 3).softmax(-1), torch.ones(2).long())\n"
    )
    assert check(decode(b"\xef\xbb\xbf" + text.encode())).findings == check(text).findings != ()


@pytest.mark.parametrize("data", [b"\x7fELF\x00\x01", b"import torch\n\xff\xfe\n", b"# coding: klingon\n"])
def test_what_is_no_text_is_refused_with_a_reason(data: bytes) -> None:
    with pytest.raises(SourceError, match=r"binary|decode"):
        decode(data)
