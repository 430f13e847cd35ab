"""Where the documentation of the rules is: in their docstrings, and on the web."""

from __future__ import annotations

from drygrad.addresses import page_at
from drygrad.model import Rule, first_sentence

ROOM = 180
"""Characters of a hover's second paragraph, which are two lines."""


def page_of(code: str) -> str:
    """Return the address of a rule's page."""
    return page_at(f"docs/rules/{code}.md")


def markdown_of(code: str) -> str | None:
    """Return a rule's documentation as Markdown; None if there is no such rule."""
    from drygrad.static.registry import rule_by_code  # noqa: PLC0415 - imports every rule

    rule = rule_by_code(code)
    return f"{page(rule)}\n[{page_of(rule.code)}]({page_of(rule.code)})\n" if rule else None


def hover_of(code: str, *, markdown: bool, whole: bool = False) -> str | None:
    """Return what a rule is about in two lines with a link to its page, or (``whole``) the page, for a small window.

    None if there is no such rule.
    """
    from drygrad.static.registry import rule_by_code  # noqa: PLC0415 - imports every rule

    rule = rule_by_code(code)
    if rule is None:
        return None
    sections = rule.documentation().sections
    title = f"**[{rule.code}]({page_of(rule.code)})** {rule.name}" if markdown else f"{rule.code}: {rule.name}"
    if not whole:
        why = first_sentence(sections.get("Why is this bad?", "") or sections.get("What it does", ""), ROOM)
        return f"{title}\n\n{why}" if markdown else f"{title}\n\n{why}\n{page_of(rule.code)}"
    parts = [title]
    for heading, text in sections.items():
        if heading != "What it does":
            parts.append(f"**{heading}**" if markdown else heading)
        parts.append(text)
    return "\n\n".join(parts)


def page(rule: type[Rule]) -> str:
    """Return the page of a rule as Markdown."""
    return f"# {rule.code}: {rule.name}\n\n{_facts(rule)}\n\n{rule.documentation().text.strip()}\n"


def _facts(rule: type[Rule]) -> str:
    """Return what there is to say of a rule besides its text: severity, fix, versions."""
    fix = "a fix is offered" if rule.has_fix() else "no static fix"
    measured = " (info where a run has counted what it costs)" if rule.costs else ""
    parts = [f"Severity: {rule.severity}{measured}", fix, f"since drygrad {rule.since}"]
    since, until = rule.torch
    if since:
        parts.append(f"from torch {since} on")
    if until:
        parts.append(f"until torch {until}")
    return " · ".join(parts)
