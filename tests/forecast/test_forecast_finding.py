"""What a forecast that does not fit says."""

from __future__ import annotations

import pytest

from drygrad.dryrun.forecast_finding import with_article
from drygrad.dryrun.short_forecast import room_on
from drygrad.gpus import gpu_named


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ("H100", "an H100-80GB"),
        ("A10", "an A10"),
        ("L4", "an L4"),
        ("mi300x", "an MI300X"),
        ("rtx4090", "an RTX 4090"),
        ("V100-32GB", "a V100-32GB"),
        ("T4", "a T4"),
        ("b200", "a B200"),
        ("24GiB", "the GPU"),
    ],
)
def test_a_gpu_has_the_article_that_is_spoken(asked: str, wanted: str) -> None:
    gpu = gpu_named(asked)
    assert gpu is not None and with_article(gpu) == wanted


def test_the_room_is_what_the_context_leaves() -> None:
    assert [room_on(10, {"context": context}) for context in (3, None, 12)] == [7, 10, 0]
