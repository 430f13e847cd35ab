"""``drygrad rules``: the list of rules."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from drygrad.model import Rule
from drygrad.static.registry import all_rules

from .overrides import wrong_code


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return the exit status."""
    wrong_code(arguments.select or ())
    rules = [rule for rule in all_rules() if _asked_for(rule, arguments)]
    if arguments.output_format == "json":
        sys.stdout.write(json.dumps([entry(rule) for rule in rules], indent=1) + "\n")
        return 0
    width = max((len(rule.name) for rule in rules), default=0)
    for rule in rules:
        fix = "fix" if rule.has_fix() else "   "
        summary = rule.documentation().summary
        sys.stdout.write(f"{rule.code}  {rule.name:{width}}  {rule.severity:7}  {fix}  {summary}\n")
    return 0


def _asked_for(rule: type[Rule], arguments: argparse.Namespace) -> bool:
    if arguments.select is not None and not rule.code.startswith(arguments.select):
        return False
    text = f"{rule.code} {rule.name} {rule.documentation().text}".lower() if arguments.search else ""
    return all(word in text for word in (arguments.search or "").lower().split())


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
