"""Where the documentation of the rules is: in their docstrings, and on the web."""

from __future__ import annotations

_PAGE = "https://github.com/drygrad/drygrad/blob/main/docs/rules/{code}.md"


def page_of(code: str) -> str:
    """Return the address of a rule's page."""
    return _PAGE.format(code=code)


def markdown_of(code: str) -> str | None:
    """Return a rule's documentation as Markdown; None if there is no such rule."""
    from drygrad.static.registry import rule_by_code  # noqa: PLC0415 - imports every rule

    rule = rule_by_code(code)
    if rule is None:
        return None
    heading, page = f"# {rule.code}: {rule.name}", page_of(rule.code)
    return f"{heading}\n\n{rule.documentation().text.strip()}\n\n[{page}]({page})\n"
