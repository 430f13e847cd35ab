"""The variables that ``torchrun`` gives a program, for one that cannot do without them."""

from __future__ import annotations

import ast
import collections.abc
import os
import sys
from typing import Any, Callable

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


class Launch:
    """Gives the variables when they are first needed, all of them, as a launch of one process does."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note

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
        for name, value in _VARIABLES.items():
            os.environ.setdefault(name, value)
        self._note("the program is one for torchrun: it has the variables of a launch of one process (RANK is 0)")


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
