"""A timeline is bounded, and keeps order, phases and peaks."""

from __future__ import annotations

from drygrad.worker.timeline import Timeline


def test_few_samples_stay_few_and_many_are_merged() -> None:
    timeline = Timeline(limit=50)
    for number in range(20_000):
        timeline.add(number if number != 9_999 else 10**9, "forward")
    samples = timeline.as_json()
    assert 2 <= len(samples) <= 51
    assert max(sample["bytes"] for sample in samples) == 10**9
    assert samples == sorted(samples, key=lambda sample: sample["seconds"])


def test_phases_that_alternate_are_merged_each_with_its_own() -> None:
    timeline = Timeline(limit=50)
    for number in range(2_000):
        timeline.add(number if number != 1_000 else 10**9, ("forward", "backward", "optimizer")[number % 3])
    samples = timeline.as_json()
    assert len(samples) <= 51
    assert [sample["phase"] for sample in samples if sample["bytes"] == 10**9] == ["backward"]
    assert samples == sorted(samples, key=lambda sample: sample["seconds"])


def test_a_phase_is_never_merged_with_another() -> None:
    timeline = Timeline()
    for phase, value in (("forward", 1), ("backward", 5), ("optimizer", 2), ("forward", 3)):
        timeline.add(value, phase)
    assert [(s["phase"], s["bytes"]) for s in timeline.as_json()] == [
        ("forward", 1),
        ("backward", 5),
        ("optimizer", 2),
        ("forward", 3),
    ]
