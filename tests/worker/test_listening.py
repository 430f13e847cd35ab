"""A call that is listened to does what it did before, whatever becomes of the listener."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from drygrad.worker.lines import Lines
from drygrad.worker.listening import Heard, Listening
from drygrad.worker.run import Instrument, Run


def double(number: int, times: int = 1) -> int:
    """Return a number doubled as often as that."""
    return number * 2**times


class Ears(Instrument):
    """Keeps what it hears, and fails where it is to."""

    name: ClassVar[str] = "ears"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.heard: list[Heard] = []

    def hear(self, heard: Heard) -> None:
        self.heard.append(heard)

    def fail(self, heard: Heard) -> None:
        raise KeyError(heard.name)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a run without a program."""
    return Run({"device": "cpu", "path": str(tmp_path)}, Lines(str(tmp_path)))


def test_arguments_are_told_as_they_were_given(run: Run) -> None:
    library: Any = SimpleNamespace(double=double)
    ears, listening = Ears(run), Listening(run)
    listening.after(library, "double", ears.hear)
    assert (library.double(3), library.double(number=3, times=2)) == (6, 12)
    assert [(h.name, h.result, h.argument("number", 0), h.argument("times", 1)) for h in ears.heard] == [
        ("double", 6, 3, None),
        ("double", 12, 3, 2),
    ]


def test_a_call_that_raises_is_not_told(run: Run) -> None:
    library: Any = SimpleNamespace(double=double)
    ears, listening = Ears(run), Listening(run)
    listening.after(library, "double", ears.hear)
    with pytest.raises(TypeError):
        library.double("a", "b")
    assert ears.heard == []


def test_the_call_goes_on_where_its_listener_fails(run: Run) -> None:
    library: Any = SimpleNamespace(double=double)
    ears, listening = Ears(run), Listening(run)
    run.listen([ears])
    listening.after(library, "double", ears.fail)
    assert library.double(3) == 6
    assert run.notes == ["the instrument ears failed and was switched off: KeyError: 'double'"]


def test_two_that_listen_to_the_same_leave_it_as_it_was(run: Run) -> None:
    library: Any = SimpleNamespace(double=double)
    ears, listening = Ears(run), Listening(run)
    listening.after(library, "double", ears.hear)
    listening.after(library, "double", ears.hear)
    listening.end()
    assert library.double is double
