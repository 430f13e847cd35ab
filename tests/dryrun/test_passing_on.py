"""Inputs that another function passes on to the target, where none of the target's own fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from plan_harness import source_of
from worker_client import WorkerClient

from drygrad.dryrun.inputs.neighbours import Neighbours
from drygrad.dryrun.inputs.passing_on import callers_of
from drygrad.dryrun.inventions import was_found
from drygrad.dryrun.plan import Missing, RunOptions
from drygrad.dryrun.planning import plan_runs
from drygrad.dryrun.result import Result
from drygrad.dryrun.targets import target_named
from drygrad.worker.search import through

SOURCE = source_of("""
    import torch
    from torch import nn

    def _signed(x, token):
        assert isinstance(token, bytes) and token.startswith(b"sign:")
        return x * int(token[5:])

    def _between(x):
        return _signed(x + 1, b"sign:" + str(x.dim()).encode())

    def public(x: torch.Tensor):
        return _between(x)

    def other(x):
        return x

    class Solver:
        def __init__(self, size):
            self.key = None
            self.size = size

        def again(self, x: torch.Tensor):
            self.key = {"x": x}
            made, self.key = self._kept(), None
            return made

        def _kept(self):
            return self.key["x"] * 2

        def solve(self, x: torch.Tensor):
            self.key = frozenset((x.dim(), "ready"))
            with torch.no_grad():
                return self._advance(x, key=self.key)

        def _advance(self, x, *rest, key):
            if key is not self.key or "ready" not in key:
                raise RuntimeError("out of order")
            return x * 2

    class Block(nn.Module):
        def forward(self, x):
            return x

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block()

        def forward(self, x):
            return self.block(x)
""")


@pytest.mark.parametrize(
    ("name", "callers"),
    [
        ("_signed", ["public", "_between"]),
        ("public", []),
        ("Solver._advance", ["Solver.solve"]),
        ("Block.forward", ["Net.forward"]),
    ],
)
def test_who_calls_a_target_those_first_that_users_call(name: str, callers: list[str]) -> None:
    target = target_named(SOURCE, name)
    assert target is not None
    assert [caller.qualname for caller in callers_of(SOURCE, target, Neighbours())] == callers


@pytest.mark.parametrize(
    ("name", "caller", "given"),
    [
        ("_signed", "public", {"x": "float32 [2, 64] on cpu", "token": "b'sign:2'"}),
        ("Solver._kept", "Solver.again", {"self": "Solver"}),
        ("Solver._advance", "Solver.solve", {"self": "Solver", "x": "float32 [2, 64] on cpu", "key": "frozenset"}),
    ],
)
def test_a_target_runs_with_what_its_caller_passes_on(
    worker: WorkerClient, tmp_path: Path, name: str, caller: str, given: dict[str, str]
) -> None:
    target = target_named(SOURCE, name)
    assert target is not None
    planned = plan_runs(SOURCE, tmp_path / "a.py", target, RunOptions(root=tmp_path, device="cpu"))
    assert not isinstance(planned, Missing)
    result = Result.read(worker.run(planned[0].as_json()))
    assert result.outcome == "passed"
    assert {i.name: i.value for i in result.inputs} == given
    assert {i.source for i in result.inputs} == {f"search, passed on by `{caller}`"}
    assert not was_found(result)  # nothing that could be written down


def test_what_is_passed_on_is_taken_with_its_names_and_its_grad_mode() -> None:
    seen: list[int] = []

    def target(first: int, *rest: int, key: int, **more: int) -> None:
        seen.append(first)

    def caller() -> None:
        with torch.no_grad():
            target(1, 2, 3, key=4, other=5)

    reached = through.passed_on(caller, target.__code__)
    assert not seen
    assert not reached.grad
    _, values = through.given_by(reached.given, reached.code, None, "told")
    assert [(spec["name"], spec["star"], value) for spec, value in values] == [
        ("", "", 1),
        ("rest", "*", (2, 3)),
        ("key", "", 4),
        ("more", "**", {"other": 5}),
    ]


def test_it_is_an_error_where_the_target_is_not_reached() -> None:
    def target() -> None: ...

    with pytest.raises(through.NotReached):
        through.passed_on(lambda: None, target.__code__)


def test_the_code_of_functions_methods_and_properties() -> None:
    class Net:
        @torch.no_grad()
        def decorated(self) -> None: ...

        @staticmethod
        def static() -> None: ...

        @property
        def width(self) -> int:
            return 1

    names: dict[str, Any] = {"Net": Net, "len": len}
    told = {part: through.code_of(names, f"Net.{part}") for part in ("decorated", "static", "width")}
    assert {part: code.co_name if code else None for part, code in told.items()} == {p: p for p in told}
    assert through.code_of(names, "len") is None
    assert through.code_of(names, "absent") is None
