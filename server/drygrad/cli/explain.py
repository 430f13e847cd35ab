"""``drygrad explain``: the documentation of one rule."""

from __future__ import annotations

import argparse
import sys

from drygrad.documentation import page
from drygrad.option_values import did_you_mean
from drygrad.static.registry import all_rules, rule_by_code

from .errors import Failure
from .formats import wants_colour


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return the exit status."""
    rule = rule_by_code(arguments.rule)
    if rule is None:
        known = [word for each in all_rules() for word in (each.code, each.name)]
        wanted = arguments.rule.upper() if arguments.rule.lower().startswith("dg") else arguments.rule
        raise Failure(f"no rule is called `{arguments.rule}`{did_you_mean(wanted, known)}")
    show(page(rule))
    return 0


def show(markdown: str) -> None:
    """Print Markdown: rendered on a terminal, else as it is."""
    if not wants_colour(sys.stdout):
        sys.stdout.write(markdown)
        return
    from rich.console import Console  # noqa: PLC0415 - only a terminal shows it
    from rich.markdown import Markdown  # noqa: PLC0415

    Console().print(Markdown(markdown))
