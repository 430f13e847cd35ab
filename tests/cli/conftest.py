"""The command line for tests, in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_harness import Cli
from fake_rules import WordAnalyzer

from drygrad import file_check


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Cli:
    monkeypatch.setattr(file_check, "Analyzer", WordAnalyzer)
    return Cli(tmp_path, monkeypatch, capfd)
