"""The server on the small analyzer of the tests: ``python faulty_server.py [LOG]``."""

import sys
from functools import cache
from pathlib import Path

from fake_dry_runs import FakeDryRuns
from faulty_analyzer import CODES, FaultyAnalyzer

from drygrad.lsp import logs
from drygrad.lsp.server import DrygradServer
from drygrad.model import Rule
from drygrad.static import registry

real_rules = registry.all_rules


@cache
def known_rules() -> tuple[type[Rule], ...]:
    """Make the codes of the small analyzer known, so that settings may name them."""
    ours = [_rule(name, code) for name, (code, _) in CODES.items()]
    codes = {rule.code for rule in ours}
    return (*ours, *(rule for rule in real_rules() if rule.code not in codes))


def _rule(name: str, code: str) -> type[Rule]:
    about = {"code": code, "name": f"{name}-found", "since": "0.1", "__doc__": "## What it does\nFinds it."}
    return type(name, (Rule,), about)


if __name__ == "__main__":
    logs.set_up(Path(sys.argv[1]) if len(sys.argv) > 1 else None, "info")
    registry.all_rules = known_rules
    DrygradServer(FakeDryRuns(), FaultyAnalyzer).run_stdio()
