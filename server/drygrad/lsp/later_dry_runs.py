"""The dry runs of a server that has just started: imported when they are first asked for, since a check needs none."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from drygrad.lsp.dry_run_service import WorkerState

if TYPE_CHECKING:
    from drygrad.lsp.local_dry_runs import LocalDryRuns


class LaterDryRuns:
    """Stands for ``LocalDryRuns``: to import all that plans and judges runs takes as long as all that checks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: LocalDryRuns | None = None
        self._listeners: list[Callable[[], None]] = []

    @property
    def state(self) -> WorkerState:
        """What the worker is doing now."""
        return self._made.state if self._made else WorkerState("stopped")

    def on_state(self, listener: Callable[[], None]) -> None:
        """Have a change of ``state`` told."""
        self._listeners.append(listener)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._service(), name)

    def _service(self) -> LocalDryRuns:
        with self._lock:
            if self._made is None:
                from drygrad.lsp.local_dry_runs import LocalDryRuns  # noqa: PLC0415 - this is what it is all about

                made = LocalDryRuns()
                made.on_state(self._told)
                self._made = made
            return self._made

    def _told(self) -> None:
        for listener in self._listeners:
            listener()
