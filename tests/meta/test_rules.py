"""What every rule must look like, so that its page, its tests and its place are where one expects them."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from textwrap import dedent

import pytest

from drygrad.model import SEVERITIES, Rule
from drygrad.static.registry import SEEN_IN_RUNS, all_rules, relations

RULES = all_rules()
ROOT = Path(__file__).parents[2]
EACH = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)

FAMILIES = {
    "autograd": "1",
    "device": "2",
    "loss": "3",
    "numerics": "4",
    "memory": "5",
    "speed": "6",
    "training": "7",
    "modules": "7",
    "api": "8",
    "reports": "9",
    "relations": "9",
}
SECTIONS = ["What it does", "Why is this bad?", "Example", "Fix safety", "References"]
RELATION = re.compile(r'^    code: ClassVar\[str\] = "(DG\d{3})"\n    name: ClassVar\[str\] = "([^"]+)"$', re.MULTILINE)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def every_class(base: type[Rule]) -> list[type[Rule]]:
    return [rule for each in base.__subclasses__() for rule in (each, *every_class(each))]


def test_codes_and_names_are_unique() -> None:
    ours = [rule for rule in every_class(Rule) if rule.__module__.startswith("drygrad.static.rules.")]
    for attribute in ("code", "name"):
        values = [vars(rule)[attribute] for rule in ours if attribute in vars(rule)]
        assert sorted(values) == sorted(set(values))


def test_the_rules_that_a_run_may_see_are_those_that_the_worker_names() -> None:
    texts = [path.read_text() for path in (ROOT / "analyzers" / "drygrad" / "worker").rglob("*.py")]
    named = {code for text in texts for code in re.findall(r'"(DG\d{3})"', text)}
    static = {rule.code for rule in RULES if not rule.run_only and not rule.reports}
    assert named & static == SEEN_IN_RUNS


@EACH
def test_codes_names_and_places_are_well_formed(rule: type[Rule]) -> None:
    *_, family, module = rule.__module__.split(".")
    assert re.fullmatch(r"DG[1-9]\d\d", rule.code)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.name)
    assert rule.code[2] == FAMILIES[family], f"{family}/{module}"
    assert rule.severity in SEVERITIES
    assert re.fullmatch(r"\d+\.\d+", rule.since)
    assert all(bound is None or re.fullmatch(r"\d+\.\d+", bound) for bound in rule.torch)


@EACH
def test_it_is_documented_in_fixed_sections(rule: type[Rule]) -> None:
    sections = rule.documentation().sections
    assert list(sections) == [heading for heading in SECTIONS if heading in sections]
    assert set(SECTIONS[:3]) <= set(sections)
    assert all(sections.values())
    assert rule.documentation().summary.endswith(".")
    assert ("Fix safety" in sections) >= rule.has_fix()


@EACH
def test_the_example_has_a_bad_and_a_good_block(rule: type[Rule]) -> None:
    example = rule.documentation().sections["Example"]
    bad, found, good = example.partition("Use instead:")
    assert found
    assert len(BLOCK.findall(bad)) >= 1
    assert len(BLOCK.findall(good)) >= 1


@EACH
def test_every_block_of_python_parses(rule: type[Rule]) -> None:
    for language, text in BLOCK.findall(rule.documentation().text):
        if language == "python":
            ast.parse(text)


@EACH
def test_it_has_examples_that_are_programs(rule: type[Rule]) -> None:
    assert rule.VALID
    assert rule.INVALID
    fixed = [invalid.fixed for invalid in rule.INVALID if invalid.fixed is not None]
    broken = [] if rule.code == "DG906" else [invalid.text for invalid in rule.INVALID]
    for text in [*(valid.text for valid in rule.VALID), *broken, *fixed]:
        ast.parse(dedent(text.removeprefix("\n")))


@EACH
def test_it_subscribes_or_reports(rule: type[Rule]) -> None:
    visitors = [name for name in dir(rule) if name.startswith("visit_")]
    assert bool(visitors) != (rule.reports or rule.run_only)


def test_the_relations_of_the_worker_are_those_of_the_rules() -> None:
    folder = ROOT / "analyzers" / "drygrad" / "worker" / "experiments"
    texts = [path.read_text() for path in folder.glob("*.py")]
    told = {match.groups() for text in texts for match in RELATION.finditer(text)}
    assert told == {*relations().items()}
