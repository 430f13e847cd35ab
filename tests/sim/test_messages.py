"""The simulated device refuses faulty programs in the words of a GPU."""

from __future__ import annotations

import pytest
from faulty_programs import PREPARED, PROGRAMS, first_line, words
from simulated import Simulated


@pytest.mark.parametrize("program", PROGRAMS)
def test_message(sim: Simulated, program: str) -> None:
    assert first_line(sim.refusal(PREPARED + program)) == words(program, sim.run("result = torch.__version__"))
