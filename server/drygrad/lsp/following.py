"""What follows a dry run while its user reads what it has found: experiments, other options, then fixes are tried."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from drygrad.lsp.dry_run_service import RunSettings, Seen
from drygrad.lsp.run_memory import Outcome

if TYPE_CHECKING:
    from drygrad.lsp.checking import Checker
    from drygrad.lsp.dry_runs import DryRuns
    from drygrad.lsp.server import DrygradServer


class Following:
    """The work that follows runs, a task for each target of a document."""

    def __init__(self, server: DrygradServer, runs: DryRuns) -> None:
        self._server = server
        self._runs = runs
        self._tasks: dict[tuple[str, str | None], asyncio.Task[None]] = {}

    @property
    def documents(self) -> set[str]:
        """The documents whose runs are followed, or were."""
        return {uri for uri, _ in self._tasks}

    def start(self, checker: Checker, run_id: str, outcome: Outcome, how: RunSettings) -> None:
        """Follow a run; a newer one of the target ends that."""
        name = f"what follows the run of {outcome.qualname or 'the script'}"
        work = self._followed(checker, run_id, outcome, how)
        self._tasks[checker.uri, outcome.qualname] = self._server.spawn(work, name)

    def end(self, uri: str, names: Iterable[str | None] | None = None) -> None:
        """End what follows the runs of a document, or of some of its targets."""
        for key, task in list(self._tasks.items()):
            if key[0] == uri and (names is None or key[1] in names):
                task.cancel()
                del self._tasks[key]

    async def _followed(self, checker: Checker, run_id: str, outcome: Outcome, how: RunSettings) -> None:
        service = self._runs.service
        seen = tuple([await service.experiment(one, how) for one in outcome.seen])
        told = await self._completed(checker, run_id, outcome, seen)
        if told is not None and len(seen) == 1:
            seen += tuple(await service.vary(seen[0], how))
            told = await self._completed(checker, run_id, told, seen)
        if told is None or not any(one.findings or one.elsewhere for one in seen):
            return
        seen = tuple([await service.verify(one, told.source, how) for one in seen])
        await self._completed(checker, run_id, told, seen)

    async def _completed(
        self, checker: Checker, run_id: str, outcome: Outcome, seen: tuple[Seen, ...]
    ) -> Outcome | None:
        """Show what is known of an outcome by now; return it, None where it is no longer the last one."""
        if seen == outcome.seen:
            return outcome
        completed = None if checker.closed else self._runs.memory(checker.uri).complete(outcome, seen)
        if completed is None:
            return None
        self._runs.report_again(run_id, outcome.seen, seen)
        checker.edited(0)
        await checker.settled()
        self._runs.refresh()
        return completed
