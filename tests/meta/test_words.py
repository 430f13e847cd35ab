"""What a user reads follows docs/contributing/style.md, as far as a test can tell."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from drygrad.options import OPTIONS
from drygrad.static.registry import all_rules

ROOT = Path(__file__).parents[2]
TEXTS = [*(ROOT / "analyzers").rglob("*.py"), *(ROOT / "server").rglob("*.py")]
BANNED = re.compile(
    r", for (there|none|nothing|nobody|it) (is|are|was|were|has|can|does)\b|\bfor ever\b|\banew\b|\bin the place of\b"
    r"|\bnobody\b|\bwhence\b|\bthrown away\b|\bnot come to\b|\bcame to nothing\b|\bturn round\b|\bby chance\b"
    r"|\bprotects nothing\b|\b(each|every) turn of\b|\bin line \{|\bis no (leaf|number)\b"
    r"|\bsynchronis|\binitialis|\bminimis|\bmaximis|\bnormalis|\brecognis",
    re.IGNORECASE,
)
"""Phrases that the style page rules out; ``in line {`` is "on line 7" in plain English."""
BANNED_ON_PAGES = re.compile(
    r"\b(?:is|are|it) (?:told|tells)\b|\bcomes? to (?:something else|the same|another)\b|\bgoes backward\b"
    r"|\b(?:each|every|first|second) turn\b|\bturns? (?:it|the \w+) round\b|\bnothing tells\b|\bknows nothing of\b"
    r"|\bway round\b|\bsomebody\b"
    r"|\blearnt\b|\bmisspelt\b|\bneighbour|\bbehaviour|\bcentres?\b|\b(?:penal|regular|quant|reparametr|general)is(?:e|ing|ation)",
    re.IGNORECASE,
)
"""What the pages of rules avoid as well: inversions, words for iterations and reports, and British spelling."""
TITLE = re.compile(r"(?:[A-Z][a-z]+|\{\}) \S.*[^.:]$|Sort it$")
NO_VERBS = frozenset({"The", "A", "An", "This", "It", "To", "For", "With", "In", "Its", "There", "New", "No", "Not"})
LONGEST_TITLE = 90


def text_of(node: ast.AST) -> str | None:
    """Return a literal's text, with ``{}`` for what it fills in."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        return "".join(str(part) for part in parts)
    return None


def examples(node: ast.AST) -> bool:
    """Say whether a statement holds a rule's examples, or is a docstring."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id in ("VALID", "INVALID")
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def literals(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if examples(child):
            continue
        text = text_of(child)
        if text is None:
            yield from literals(child)
        elif " " in text:
            yield text


def titles(tree: ast.AST) -> Iterator[str]:
    """Yield the titles of fixes that stand in a text: the first argument of ``ctx.fix`` and ``site.fix``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and getattr(node.func, "attr", "") == "fix":
            text = text_of(node.args[0])
            if text is not None:
                yield text


@cache
def parsed() -> list[tuple[Path, ast.Module]]:
    return [(path, ast.parse(path.read_text(encoding="utf-8"))) for path in TEXTS]


def test_no_text_has_a_phrase_that_the_style_rules_out() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {text}" for path, tree in parsed() for text in literals(tree) if BANNED.search(text)
    ]
    assert found == []


def test_the_search_finds_what_it_is_to_find() -> None:
    tree = ast.parse('"""For there is none."""\nraise Error(f"on sim, for there is no GPU in line {n}")\n')
    assert [text for text in literals(tree) if BANNED.search(text)] == ["on sim, for there is no GPU in line {}"]


def test_titles_of_fixes_are_short_imperatives() -> None:
    found = [text for _, tree in parsed() for text in titles(tree)]
    assert len(found) > 200
    wrong = [
        text for text in found if not TITLE.match(text) or text.split()[0] in NO_VERBS or len(text) > LONGEST_TITLE
    ]
    assert wrong == []


def test_descriptions_of_settings_begin_with_what_matters() -> None:
    assert [option.name for option in OPTIONS if len(option.description.split(". ")[0]) > 190] == []


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_pages_of_rules_have_no_phrase_that_the_style_rules_out(rule: type) -> None:
    assert BANNED.search(str(rule.__doc__)) is None
    assert BANNED_ON_PAGES.search(str(rule.__doc__)) is None


@pytest.mark.parametrize(
    "phrase",
    ["the loss that is told", "in the second turn", "it penalises", "it knows nothing of", "the other way round"],
)
def test_what_pages_avoid_is_found(phrase: str) -> None:
    assert BANNED_ON_PAGES.search(phrase)
