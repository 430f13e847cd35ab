"""While a text does not parse, its findings stay with their lines, or go with them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from drygrad.lsp.lines import changed_blocks, equal_blocks
from drygrad.lsp.shifting import shifted
from drygrad.model import Edit, Finding, Fix, Related, Span
from drygrad.static.source import Source


def finding(line: int, end: int | None = None, **rest: object) -> Finding:
    return Finding("DG101", "name", f"at {line}", "error", Span.of(line, 0, end or line, 3), **rest)  # pyright: ignore[reportArgumentType]


unique_lines = st.lists(st.integers(0, 500), unique=True, max_size=30).map(lambda ns: [f"line {n}" for n in ns])
Change = tuple[int, int, list[str]]
edits = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 4), st.lists(st.sampled_from(["(", "new"]), max_size=3)))


@given(unique_lines, edits, st.sampled_from(["\n", "\r\n"]))
def test_each_finding_stays_on_its_line_or_goes(
    lines: list[str], edits: list[tuple[int, int, list[str]]], end: str
) -> None:
    new = list(lines)
    for start, count, inserted in edits:
        new[start : start + count] = inserted
    findings = [finding(n + 1) for n in range(len(lines))]
    kept = shifted(findings, Source(end.join(lines)), Source("\n".join(new)))
    assert [lines[int(f.message[3:]) - 1] for f in kept] == [new[f.span.start.line - 1] for f in kept]
    assert len(kept) == len(set(lines) & set(new)), "an unchanged line lost its finding"


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_blocks_cover_both_texts(old: list[str], new: list[str]) -> None:
    for a, b, size in equal_blocks(old, new):
        assert old[a : a + size] == new[b : b + size]
    rebuilt = list(old)
    for gone, come in reversed(list(changed_blocks(old, new))):
        rebuilt[gone] = new[come]
    assert rebuilt == new


def test_a_finding_of_several_lines_goes_when_one_is_edited() -> None:
    old = Source("f(\n  a,\n  b)\ng()\n")
    assert shifted([finding(1, 3), finding(4)], old, Source("f(\n  a, (\n  b)\ng()\n")) == [finding(4)]


def test_a_finding_torn_apart_goes() -> None:
    assert shifted([finding(1, 2)], Source("a(\nb)\n"), Source("a(\n(\nb)\n")) == []


def test_fixes_are_left_out_and_related_places_move() -> None:
    far = Related("far", Span.of(9, 0, 9, 1), "b.py")
    related = (
        Related("here", Span.of(3, 0, 3, 1)),
        Related("gone", Span.of(1, 0, 1, 1)),
        far,
    )
    fix = Fix("do", (Edit(Span.of(2, 0, 2, 1), "x"),))
    (kept,) = shifted([finding(2, related=related, fixes=(fix,))], Source("a\nb\nc\n"), Source("(\n(\nb\nc\n"))
    assert kept.span == Span.of(3, 0, 3, 3)
    assert kept.fixes == ()
    assert kept.related == (Related("here", Span.of(4, 0, 4, 1)), far)


def test_a_region_too_large_to_compare_is_dropped() -> None:
    old = Source("".join(f"old {n}\n" for n in range(4000)) + "end\n")
    new = Source("".join(f"new {n}\n" for n in range(4000)) + "old 17\nend\n")
    assert shifted([finding(18), finding(4001)], old, new) == [finding(4001).shifted(1)]
