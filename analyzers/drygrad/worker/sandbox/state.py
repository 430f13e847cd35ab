"""What the launcher has applied, as the worker reads it from its environment."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

VARIABLE = "DRYGRAD_SANDBOX"
DEFAULT_SCRATCH_BYTES = 2 << 30


class Sandbox(NamedTuple):
    """The active layer and its folders."""

    layer: str = "none"
    """`overlay`, `landlock`, `seccomp` (files are held by Python only) or `none` (nothing is held by the kernel)."""
    private: str = ""
    """The folder that may be written to; empty if nobody prepared one."""
    workspaces: tuple[str, ...] = ()
    scratch_bytes: int = DEFAULT_SCRATCH_BYTES
    layers: Mapping[str, bool | str] = MappingProxyType({})
    """Layer → True, or the reason why it does not hold here."""

    @property
    def kernel(self) -> bool:
        """Whether system calls are filtered."""
        return self.layer != "none"

    @property
    def overlay(self) -> bool:
        """Whether writes succeed and vanish."""
        return self.layer == "overlay"

    def to_json(self) -> str:
        """As the environment carries it."""
        return json.dumps({**self._asdict(), "layers": dict(self.layers)})


def current(environment: Mapping[str, str] | None = None) -> Sandbox:
    """The sandbox of this process; layer `none` where no launcher was used."""
    text = (os.environ if environment is None else environment).get(VARIABLE)
    return Sandbox(**json.loads(text)) if text else Sandbox()
