"""``drygrad rules``: the list of rules."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from drygrad.model import Rule
from drygrad.static.registry import all_rules


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return the exit status."""
    rules = all_rules()
    if arguments.output_format == "json":
        sys.stdout.write(json.dumps([entry(rule) for rule in rules], indent=1) + "\n")
        return 0
    width = max((len(rule.name) for rule in rules), default=0)
    for rule in rules:
        fix = "fix" if rule.has_fix() else "   "
        summary = rule.documentation().summary
        sys.stdout.write(f"{rule.code}  {rule.name:{width}}  {rule.severity:7}  {fix}  {summary}\n")
    return 0


def entry(rule: type[Rule]) -> dict[str, Any]:
    """Return what there is to know of a rule."""
    documentation = rule.documentation()
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity,
        "since": rule.since,
        "torch": {"since": rule.torch[0], "until": rule.torch[1]},
        "fix": rule.has_fix(),
        "summary": documentation.summary,
        "documentation": documentation.text,
    }
