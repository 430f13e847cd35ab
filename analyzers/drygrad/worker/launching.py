"""How a program is started: its arguments, variables and folder, and what ``torchrun`` gives it."""

from __future__ import annotations

import ast
import collections.abc
import os
import sys
from typing import Any, Callable, cast

from drygrad.worker.command_line import Arguments
from drygrad.worker.sandbox import offline

_VARIABLES = {
    "RANK": "0",
    "LOCAL_RANK": "0",
    "WORLD_SIZE": "1",
    "LOCAL_WORLD_SIZE": "1",
    "GROUP_RANK": "0",
    "ROLE_RANK": "0",
    "ROLE_WORLD_SIZE": "1",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_RESTART_COUNT": "0",
    "TORCHELASTIC_MAX_RESTARTS": "0",
}
_ASKING = frozenset(
    getattr(collections.abc.Mapping, name).__code__ for name in ("get", "__contains__")
)  # fmt: skip
"""They ask whether there is a variable: a program that does so can do without."""


_STARTS_RANKS = frozenset(("torchrun", "torch-launch", "accelerate", "accelerate-launch", "deepspeed"))


class Launch:
    """The start of a run's program: as the plan has it, else that of a script without arguments.

    The variables of ``torchrun`` are given when they are first needed, all of them, as a launch of one process does.
    """

    def __init__(self, plan: dict[str, Any], note: Callable[[str], None]) -> None:
        given = plan.get("launch")
        self._given: dict[str, Any] = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
        self._plan = plan
        self._note = note
        self._variables = dict(_VARIABLES)
        self.tests: list[str] | None = self._arguments[1:] if self._given.get("kind") == "tests" else None
        """What ``pytest`` is started with, where that is the program."""

    @property
    def _arguments(self) -> list[str]:
        return [str(word) for word in self._given.get("argv") or [self._plan["path"]]]

    def enter(self, root: str) -> None:
        """Give the process the arguments, the variables and the folders of the program."""
        sys.path += map(str, self._plan.get("sys_path_last") or ())
        sys.argv = Arguments(self._arguments)
        sys.argv.given = len(self._arguments) > 1 and self._given.get("given") is not False
        variables: dict[str, Any] = self._given.get("environment") or {}
        os.environ.update({str(name): str(value) for name, value in variables.items() if name not in offline.NAMES})
        folder = str(self._given.get("folder") or root)
        if os.path.isdir(folder):
            os.chdir(folder)
        ranks = self._given.get("ranks") or 1
        if _STARTS_RANKS.intersection(self._given.get("through") or ()):
            self._set()
        if ranks > 1 and not self._plan.get("forecast"):
            self._note(f"only the first of {ranks} processes is run, in a group of one")

    @property
    def world(self) -> int:
        """How many processes the program is one of, in a forecast: as asked for, else as it is launched."""
        asked: dict[str, Any] = self._plan.get("forecast") or {}
        return int(asked.get("ranks") or self._given.get("ranks") or 1) if asked else 1

    def become(self, rank: int, world: int, begin: bool) -> None:
        """Let this process be one of several: it has its variables from the beginning on, or when it needs them."""
        each = ("RANK", "LOCAL_RANK", "ROLE_RANK"), ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE")
        for names, value in zip(each, (rank, world)):
            self._variables.update({name: str(value) for name in names})
            os.environ.update({name: str(value) for name in names if name in os.environ})
        if begin:
            self._begin()

    def install(self) -> None:
        """Give them to who reads one as ``os.environ["RANK"]``."""
        kind: Any = type(os.environ)
        read = kind.__getitem__

        def __getitem__(environment: Any, name: Any) -> Any:
            asking = sys._getframe(1).f_code in _ASKING  # pyright: ignore[reportPrivateUsage]
            if name in _VARIABLES and not asking and name not in environment:
                self._begin()
            return read(environment, name)

        kind.__getitem__ = __getitem__

    def read(self, tree: ast.AST) -> None:
        """Give them to a program that makes a number of one without asking whether it is there."""
        if any(_counts_on(node) for node in ast.walk(tree)):
            self._begin()

    def _begin(self) -> None:
        if self._set():
            self._note("the program expects torchrun; it gets the environment of a single-process launch (RANK is 0)")

    def _set(self) -> bool:
        """Set the variables that are not set; say whether there were any."""
        unset = {name: value for name, value in self._variables.items() if name not in os.environ}
        os.environ.update(unset)
        return bool(unset)


def _counts_on(node: ast.AST) -> bool:
    """Say whether an expression is ``int(os.environ.get("RANK"))``, which fails where the variable is not set."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "int"):
        return False
    asked = node.args[0] if len(node.args) == 1 else None
    if not (isinstance(asked, ast.Call) and len(asked.args) == 1 and not asked.keywords):
        return False
    name = asked.args[0]
    called = ast.unparse(asked.func).rpartition(".")[2]
    return called in ("get", "getenv") and isinstance(name, ast.Constant) and name.value in _VARIABLES
