"""What is proposed where a consumer waits for ever."""

from __future__ import annotations

import pytest
from fixes_harness import proposed

PROGRAM = """\
def produce(loader, ready):
    for batch in loader:
        ready.put(batch){after}


def consume(ready):
    while True:
        batch = ready.get()
        if batch is {end}:
            return
        print(batch)
"""


@pytest.mark.parametrize(
    ("after", "end", "expected"),
    [("", "None", ["ready.put(None)"]), ("\n    ready.put(None)", "None", []), ("", "STOP", [])],
)
def test_a_producer_says_that_there_is_no_more(after: str, end: str, expected: list[str]) -> None:
    text = PROGRAM.format(after=after, end=end)
    assert [*proposed(text, "DG604", "batch = ready.get()").values()] == expected
