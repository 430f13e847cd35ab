"""Where drygrad is on the web."""

from __future__ import annotations

REPOSITORY = "https://github.com/drygrad/drygrad"


def page_at(path: str) -> str:
    """Return the address of a file of the repository."""
    return f"{REPOSITORY}/blob/main/{path}"
