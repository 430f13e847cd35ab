"""Whatever a run tries, in whatever layer and as whatever user: it leaves no trace, and ordinary code runs on."""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Generator

import pytest
from sandbox_attempts import ATTEMPTS
from sandbox_harness import IS_ROOT, NOBODY, Outcome, World, confined, free, world

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the kernel's layers are Linux's"),
]

LAYERS = ("overlay", "landlock", "seccomp", "none")
USERS = (None, NOBODY) if IS_ROOT else (None,)
CONTROLS = [name for name, entry in ATTEMPTS.items() if entry.control]
REFUSED = [name for name, entry in ATTEMPTS.items() if entry.refused]
UNHELD = {
    "none": {"read_memory_of_another"} if IS_ROOT else set[str](),
}
"""What a layer cannot hold: without a kernel's layer, root may read anybody's memory."""
ORDINARY = [name for name, entry in ATTEMPTS.items() if entry.runs_on]
CONNECTING = {"connect_tcp", "connect_unix", "c_connect_unix", "c_connect_tcp"}
KILLING = {"kill_another", "c_kill_another"}
WRITING = [name for name in CONTROLS if name not in KILLING | CONNECTING | {"outlive"}]


def as_whom(user: int | None) -> str:
    return "unprivileged" if user or not IS_ROOT else "root"


@functools.cache
def tried(layer: str, user: int | None) -> Outcome:
    with world(list(ATTEMPTS), user) as made:
        return confined(layer, made)


@pytest.fixture(params=[(layer, user) for layer in LAYERS for user in USERS], ids=lambda p: f"{p[0]}-{as_whom(p[1])}")
def outcome(request: pytest.FixtureRequest) -> Outcome:
    """All attempts, made once for each layer and user."""
    found = tried(*request.param)
    if "no sandbox here" in found.errors:
        pytest.skip(found.errors)
    return found


@pytest.mark.parametrize("name", ATTEMPTS)
def test_an_attempt_leaves_no_trace(outcome: Outcome, name: str) -> None:
    assert name in outcome.results, outcome.errors
    assert outcome.changed[name] == []


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_code_runs_on_to_its_end(outcome: Outcome, name: str) -> None:
    assert outcome.results[name] == "done"


@pytest.mark.parametrize("name", REFUSED)
def test_an_attempt_at_others_does_not_come_to_its_end(outcome: Outcome, name: str) -> None:
    if name in UNHELD.get(outcome.layer, ()):
        pytest.skip("nothing holds that here")
    assert outcome.results[name] != "done"


def test_nothing_is_left_outside_the_workspace(outcome: Outcome) -> None:
    assert outcome.elsewhere == []
    assert outcome.left_folders == []
    assert outcome.left_processes == []


def test_nobody_is_reached(outcome: Outcome) -> None:
    assert outcome.connections == 0
    assert outcome.victim_lives


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("run_program", "does not start other programs (touch)"),
        ("run_shell", "does not start other programs (touch"),
        ("connect_tcp", "does not open network connections"),
        ("kill_parent", "does not signal other processes"),
    ],
)
def test_a_refusal_says_what_is_not_done(outcome: Outcome, name: str, words: str) -> None:
    assert outcome.results[name].startswith("Blocked: ")
    assert words in outcome.results[name]


@pytest.fixture(scope="module")
def unconfined() -> Generator[tuple[World, Outcome]]:
    with world(WRITING, None) as made:
        yield made, free(made)


@pytest.mark.parametrize("name", WRITING)
def test_the_same_attempt_leaves_a_trace_without_a_sandbox(unconfined: tuple[World, Outcome], name: str) -> None:
    assert unconfined[1].changed[name] != [], unconfined[1].results


@pytest.mark.parametrize("name", sorted(CONNECTING))
def test_the_same_connection_succeeds_without_a_sandbox(name: str) -> None:
    with world([name], None) as made:
        assert free(made).connections == 1


@pytest.mark.parametrize("name", sorted(KILLING))
def test_the_same_signal_kills_without_a_sandbox(name: str) -> None:
    with world([name], None) as made:
        free(made)
        assert made.victim.wait(180) != 0


def test_a_process_left_behind_lives_on_without_a_sandbox() -> None:
    with world(["outlive"], None) as made:
        left = free(made).left_processes
        for process in left:
            os.kill(int(process), signal.SIGKILL)
        assert left != []
