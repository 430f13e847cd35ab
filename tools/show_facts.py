"""Print what is known of a file's expressions: ``tools/show_facts.py FILE [FIRST_LINE [LAST_LINE]]``."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from drygrad.static.facts.module import ModuleFacts
from drygrad.static.source import Source, read


def facts_of(source: Source, first: int = 1, last: int | None = None) -> Iterator[str]:
    """Yield a line for each expression, and then for each event, that stands in these lines of a text."""
    recording = ModuleFacts(source.parse(), source.text).recording
    lines = range(first, (last or len(source.lines)) + 1)
    for node, value in sorted(recording.values.items(), key=lambda item: source.start(item[0])):
        if node.lineno in lines and not isinstance(node, ast.Constant):
            yield f"{node.lineno}:{node.col_offset} {' '.join(source.segment(node).split())} = {value}"
    for event in recording.events.values():
        if event.node.lineno in lines:
            yield f"{event.node.lineno}:{event.node.col_offset} {event}"


def main() -> None:
    path, *lines = sys.argv[1:]
    print("\n".join(facts_of(read(Path(path)), *map(int, lines))))


if __name__ == "__main__":
    main()
