"""What a server imports before it answers: what a check needs, and not what plans, repairs and forecasts runs."""

from __future__ import annotations

import subprocess
import sys

LATER = ("planning", "verify", "merge", "service", "fixes", "what_if")


def test_a_server_starts_without_what_only_runs_need() -> None:
    program = "import sys, drygrad.lsp.server; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", program], text=True).split()
    assert "drygrad.lsp.dry_runs" in loaded
    assert [name for name in LATER if f"drygrad.dryrun.{name}" in loaded] == []
