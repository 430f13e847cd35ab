"""The server on the small analyzer of the tests: ``python faulty_server.py [LOG]``."""

import sys
from pathlib import Path

from faulty_analyzer import CODES, FaultyAnalyzer

from drygrad.lsp import logs
from drygrad.lsp.server import DrygradServer
from drygrad.model import Rule
from drygrad.static import registry


def known_rules() -> tuple[type[Rule], ...]:
    """Make the codes of the small analyzer known, so that settings may name them."""
    text = "## What it does\nFinds it."
    ours = [
        type(name, (Rule,), {"code": c, "name": f"{name}-found", "__doc__": text}) for name, (c, _) in CODES.items()
    ]
    codes = {rule.code for rule in ours}
    return (*ours, *(rule for rule in registry.all_rules() if rule.code not in codes))


if __name__ == "__main__":
    logs.set_up(Path(sys.argv[1]) if len(sys.argv) > 1 else None, "info")
    registry.all_rules = known_rules
    DrygradServer(FaultyAnalyzer).run_stdio()
