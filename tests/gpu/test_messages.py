"""A real GPU says what the simulated one says. Skipped where there is none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from faulty_programs import PREPARED, PROGRAMS, first_line, words
from simulated import Simulated


@pytest.fixture(scope="module")
def gpu() -> Iterator[Simulated]:
    real = Simulated(enable=False)
    try:
        if not real.run("result = torch.cuda.is_available()"):
            pytest.skip("no GPU")
        yield real
    finally:
        real.close()


@pytest.mark.parametrize("program", PROGRAMS)
def test_message(gpu: Simulated, program: str) -> None:
    assert first_line(gpu.refusal(PREPARED + program)) == words(program, gpu.run("result = torch.__version__"))
