"""docs/found.md can be read as what `make found` tries."""

from __future__ import annotations

import ast
import re

import pytest

from drygrad.static.registry import all_rules

from .page import PAGE, mended, proofs

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_page_counts_what_it_proves() -> None:
    proven = proofs(TEXT)
    said = re.search(r"^(\d+) faults in (\d+) packages", TEXT, re.MULTILINE)
    assert said is not None
    assert (int(said[1]), int(said[2])) == (len(proven), len({proof.package for proof in proven}))
    rows = re.findall(r"^\| (\S+) (\S+) \| `([^`]+)` (\d+) \| (DG\d+) \|", TEXT, re.MULTILINE)
    assert rows == [(p.package, p.version, p.path, str(p.lines[0]), p.code) for p in proven]


def test_each_proof_has_a_rule_and_a_program_and_says_what_mends_it() -> None:
    codes = {rule.code for rule in all_rules()}
    for proof in proofs(TEXT):
        assert proof.code in codes, proof.name
        assert ast.parse(proof.program).body, proof.name
    assert TEXT.count("\nFixed by") == len(proofs(TEXT))


def test_a_diff_replaces_each_piece_wherever_it_stands() -> None:
    assert mended("a = f(x)\nb = f(y)\n", "-a = f(x)\n+a = g(x)\n") == "a = g(x)\nb = f(y)\n"
    assert mended("a\n  a\n", "-a\n+b\n-  a\n+  c\n") == "b\n  c\n"
    with pytest.raises(ValueError, match="the text has no"):
        mended("a\n", "-b\n+c\n")
