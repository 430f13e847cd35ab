"""Fixes applied to texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from drygrad.fixing import Check, apply_edits, compatible, fix_text
from drygrad.model import Edit, Finding, Fix, Safety, Span
from drygrad.static.source import Source


def replacing(old: str, new: str, safety: Safety = "safe") -> Check:
    """Return a check that finds a word and offers another."""

    def check(text: str) -> Sequence[Finding]:
        source = Source(text)
        spans = [Span(source.position(m.start()), source.position(m.end())) for m in re.finditer(old, text)]
        fixes = [(Fix("replace", (Edit(span, new),), safety),) for span in spans]
        return [Finding("DG101", "x", "x", "error", s, fixes=f) for s, f in zip(spans, fixes, strict=True)]

    return check


def both(*checks: Check) -> Callable[[str], Sequence[Finding]]:
    return lambda text: [finding for check in checks for finding in check(text)]


def test_every_occurrence_is_replaced_and_counted() -> None:
    fixed = fix_text("one = 1\none = one\n", replacing("one", "two"))
    assert (fixed.text, fixed.applied) == ("two = 1\ntwo = two\n", 3)


def test_fixing_twice_is_fixing_once() -> None:
    check = both(replacing("a", "b"), replacing("b", "c"))
    once = fix_text("a = b\n", check)
    assert once.text == "c = c\n"
    assert fix_text(once.text, check).applied == 0


def test_unsafe_fixes_are_applied_on_request_only() -> None:
    check = replacing("a", "b", "unsafe")
    assert fix_text("a\n", check).text == "a\n"
    assert fix_text("a\n", check, unsafe=True).text == "b\n"


def test_two_fixes_that_undo_each_other_come_to_an_end() -> None:
    fixed = fix_text("a\n", both(replacing("a", "b"), replacing("b", "a")))
    assert fixed.text in ("a\n", "b\n")


def test_a_fix_that_always_finds_more_comes_to_an_end() -> None:
    assert fix_text("a\n", replacing("a$", "aa")).text.startswith("aa")


def test_a_fix_that_breaks_the_syntax_is_refused_and_the_others_stay() -> None:
    fixed = fix_text("a = b\n", both(replacing("a", "("), replacing("b", "c")))
    assert (fixed.text, fixed.applied, len(fixed.refused)) == ("a = c\n", 1, 1)


def test_of_two_fixes_at_one_place_the_first_is_taken() -> None:
    wide, inner = (Fix(str(n), (Edit(Span.of(1, 0, 1, n), "x"),)) for n in (5, 3))
    insertions = [Fix("i", (Edit(Span.of(2, 0, 2, 0), text),)) for text in ("a", "b")]
    assert compatible([wide, inner, *insertions]) == [wide, insertions[0]]


def test_a_fix_is_applied_whole_or_not_at_all() -> None:
    one = Fix("one", (Edit(Span.of(1, 0, 1, 1), "x"),))
    other = Fix("other", (Edit(Span.of(1, 0, 1, 1), "y"), Edit(Span.of(2, 0, 2, 1), "y")))
    assert compatible([one, other]) == [one]


def test_edits_of_other_files_are_left_out() -> None:
    assert compatible([Fix("away", (Edit(Span.of(1, 0, 1, 1), "x", path="b.py"),)), Fix("empty", ())]) == []


def test_line_ends_follow_the_text() -> None:
    source = Source("a\r\nb\r\n")
    assert apply_edits(source, [Edit(Span.of(2, 0, 2, 1), "x\ny")]) == "a\r\nx\r\ny\r\n"


def test_columns_are_characters() -> None:
    assert apply_edits(Source("'😀é' + a"), [Edit(Span.of(1, 7, 1, 8), "b")]) == "'😀é' + b"
