"""Every rule keeps what its own examples promise."""

from __future__ import annotations

import re
from collections.abc import Iterator
from textwrap import dedent

import pytest
from rule_harness import Example, kinds

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.registry import all_rules


def _examples(kind: str) -> Iterator[object]:
    for rule in (rule for rule in all_rules() if not rule.run_only):
        for number, example in enumerate(getattr(rule, kind)):
            yield pytest.param(rule, example, id=f"{rule.code}-{number}")


FIRST_SENTENCE = re.compile(r"(?<=[^.])\. |; ")
LONGEST_SENTENCE = 90
"""What fits into a line of a list of problems (docs/contributing/style.md)."""
QUOTING = frozenset({"DG817"})
"""Rules whose messages are torch's own."""
IMPORTS = {
    "copy": "import copy",
    "dist": "import torch.distributed as dist",
    "functools": "import functools",
    "itertools": "import itertools",
    "math": "import math",
    "np": "import numpy as np",
    "os": "import os",
    "threading": "import threading",
    "time": "import time",
    "transforms": "from torchvision import transforms",
    "v2": "from torchvision.transforms import v2",
    "Categorical": "from torch.distributions import Categorical",
    "DDP": "from torch.nn.parallel import DistributedDataParallel as DDP",
    "DistributedSampler": "from torch.utils.data.distributed import DistributedSampler",
    "checkpoint": "from torch.utils.checkpoint import checkpoint",
    "pack_padded_sequence": "from torch.nn.utils.rnn import pack_padded_sequence",
    "pad_sequence": "from torch.nn.utils.rnn import pad_sequence",
    **{
        name: f"from torch.utils.data import {name}"
        for name in ("DataLoader", "Dataset", "IterableDataset", "Subset", "WeightedRandomSampler", "random_split")
    },
}
"""What the examples of pages leave out, by the name that they use."""
INVALID = list(_examples("INVALID"))
VALID = list(_examples("VALID"))


PAGES = [rule for rule in all_rules() if not rule.run_only and rule.code < "DG9"]
SHOWN = re.compile(r"## Example\n```python\n(.*?)```\nUse instead:\n```python\n(.*?)```", re.DOTALL)


def shown(rule: type[Rule]) -> tuple[list[Finding], list[Finding]]:
    """Return what is found in the bad and in the good example of a rule's page, as if each were pasted into a file."""
    match = SHOWN.search(dedent(str(rule.__doc__)))
    assert match is not None
    return _in_file(match[1]), _in_file(match[2])


def _in_file(text: str) -> list[Finding]:
    names = set(re.findall(r"(?<![.\w])[A-Za-z_]\w*", text))
    lines = [line for name, line in IMPORTS.items() if name in names and line not in text]
    usual = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
    return Example.of("".join(f"{line}\n" for line in lines) + usual + text).findings()


def own(rule: type[Rule], findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.code == rule.code]


@pytest.mark.parametrize(("rule", "valid"), VALID)
def test_valid(rule: type[Rule], valid: Valid) -> None:
    findings = Example.of(valid.text, valid.target_torch).findings()
    loud = [finding for finding in findings if finding.severity in ("error", "warning")]
    assert own(rule, findings) == []
    assert loud == []


@pytest.mark.parametrize(("rule", "invalid"), INVALID)
def test_invalid(rule: type[Rule], invalid: Invalid) -> None:
    found = own(rule, Example.of(invalid.text, invalid.target_torch).findings())
    assert len(found) == invalid.count
    first = found[0]
    assert first.severity == (invalid.severity or rule.severity)
    assert first.name == rule.name
    if invalid.at:
        assert (*first.span.start, *first.span.end) == invalid.at
    if rule.code not in QUOTING:
        assert [f.message for f in found if len(FIRST_SENTENCE.split(f.message)[0]) > LONGEST_SENTENCE] == []


@pytest.mark.parametrize(("rule", "invalid"), INVALID)
def test_fixes(rule: type[Rule], invalid: Invalid) -> None:
    example = Example.of(invalid.text, invalid.target_torch)
    before = example.findings()
    found = own(rule, before)
    assert bool(found[0].fixes) == (invalid.fixed is not None)
    for finding in found:
        for number, fix in enumerate(finding.fixes):
            after = example.after(fix)
            if number == 0 and finding is found[0]:
                assert after.text == dedent((invalid.fixed or "").removeprefix("\n"))
            assert after.parses(), fix.title
            _assert_settled(rule, before, after.findings(), fix.title)


def _assert_settled(rule: type[Rule], before: list[Finding], after: list[Finding], title: str) -> None:
    """The finding is gone, and no kind of fault has more findings than before."""
    old, new = kinds(before), kinds(after)
    assert new.get(rule.code, 0) < old[rule.code], title
    assert {code for code, count in new.items() if count > old.get(code, 0)} == set(), title


@pytest.mark.parametrize("rule", PAGES, ids=lambda rule: rule.code)
def test_the_example_of_a_page_is_found(rule: type[Rule]) -> None:
    assert own(rule, shown(rule)[0]) != []


@pytest.mark.parametrize("rule", PAGES, ids=lambda rule: rule.code)
def test_nothing_is_found_in_what_a_page_recommends(rule: type[Rule]) -> None:
    assert shown(rule)[1] == []
