"""What a supervisor says of its worker, and the bounds it holds the worker to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

StateName = Literal["starting", "ready", "busy", "backing-off", "failed", "stopped"]


@dataclass(frozen=True)
class Limits:
    """Bounds in seconds, but for ``garbage``, a number of messages that are none."""

    start: float = 120.0
    cancel: float = 0.5
    grace: float = 5.0
    farewell: float = 0.5
    garbage: int = 50


@dataclass(frozen=True)
class State:
    """What a worker is doing, and ``why`` it is not ready where it is not.

    ``unusable`` means that another start would not help: the interpreter has no torch that serves.
    ``ready`` is what the worker said of itself when it last started.
    """

    name: StateName
    interpreter: str
    why: str | None = None
    unusable: bool = False
    ready: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def phase(self) -> str:
        """What a run hears that waits for it: what is waited for, if that is known."""
        return self.why if self.name == "starting" and self.why else self.name

    @property
    def torch(self) -> str | None:
        """The version of torch, once the worker has said so."""
        return _text(self.ready.get("torch"))

    @property
    def python(self) -> str | None:
        """The version of the interpreter, once the worker has said so."""
        return _text(self.ready.get("python"))

    @property
    def cuda(self) -> Mapping[str, Any]:
        """The real GPUs as the worker sees them: ``available``, ``devices``, ``free_bytes``."""
        return self._part("cuda")

    @property
    def sim(self) -> Mapping[str, Any]:
        """Whether the simulated device ``works`` (None: not tried yet) and ``why`` not."""
        return self._part("sim")

    @property
    def sandbox(self) -> Mapping[str, Any]:
        """The layers of the sandbox: True, or why one does not hold."""
        return self._part("sandbox")

    @property
    def devices(self) -> tuple[str, ...]:
        """The kinds of device that a run can choose."""
        real = ("cuda",) if self.cuda.get("available") is True else ()
        simulated = () if self.sim.get("works") is False else ("sim",)
        return (*real, *simulated, "cpu")

    def _part(self, key: str) -> Mapping[str, Any]:
        part = self.ready.get(key)
        return cast("Mapping[str, Any]", part) if isinstance(part, Mapping) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
