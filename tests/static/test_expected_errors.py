"""An error is expected where a handler makes something of it, not where it merely tells of it."""

from __future__ import annotations

import pytest

from drygrad.static.engine import Analyzer
from drygrad.static.source import Source

FAULT = "torch.randn(3, device='cuda') + torch.randn(3)"
REPORTED = [
    f"try:\n    y = {FAULT}\nexcept RuntimeError as e:\n    print(e)\n",
    f"try:\n    y = {FAULT}\nexcept Exception:\n    pass\n",
    f"try:\n    y = {FAULT}\nexcept KeyError:\n    y = None\n",
    f"try:\n    y = 1\nexcept RuntimeError:\n    y = {FAULT}\n",
    f"try:\n    y = {FAULT}\nexcept (ValueError, RuntimeError):\n    logging.exception('no')\n    raise\n",
]
EXPECTED = [
    f"try:\n    y = {FAULT}\nexcept RuntimeError:\n    y = None\n",
    f"try:\n    y = {FAULT}\nexcept:\n    y = None\n",
    f"import pytest\nwith pytest.raises(RuntimeError):\n    y = {FAULT}\n",
    f"import contextlib\nwith contextlib.suppress(RuntimeError):\n    y = {FAULT}\n",
]


def codes(text: str) -> list[str]:
    source = Source(f"import logging\nimport torch\n{text}")
    return [finding.code for finding in Analyzer().check(source).findings]


@pytest.mark.parametrize("text", REPORTED)
def test_an_error_that_is_only_told_of_is_a_finding(text: str) -> None:
    assert codes(text) == ["DG205"]


@pytest.mark.parametrize("text", EXPECTED)
def test_an_expected_error_is_none(text: str) -> None:
    assert codes(text) == []
