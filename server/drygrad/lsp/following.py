"""What follows a dry run while its user reads what it has found: experiments, other options, then fixes are tried."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from drygrad.lsp.dry_run_service import RunSettings, Seen
from drygrad.lsp.progress import Progress
from drygrad.lsp.run_memory import Outcome

if TYPE_CHECKING:
    from drygrad.lsp.checking import Checker
    from drygrad.lsp.dry_runs import DryRuns
    from drygrad.lsp.server import DrygradServer

_OF_EXPERIMENTS = "experiments: "


class Following:
    """The work that follows runs, a task for each target of a document."""

    def __init__(self, server: DrygradServer, runs: DryRuns) -> None:
        self._server = server
        self._runs = runs
        self._works: dict[tuple[str, str | None], _Work] = {}

    @property
    def documents(self) -> set[str]:
        """The documents whose runs are followed, or were."""
        return {uri for uri, _ in self._works}

    def start(self, checker: Checker, run_id: str, outcome: Outcome, how: RunSettings) -> None:
        """Follow a run; a newer one of the target ends that."""
        work = _Work(self._server, self._runs, checker, run_id, outcome, how)
        self._works[checker.uri, outcome.qualname] = work
        work.start()

    def end(self, uri: str, names: Iterable[str | None] | None = None) -> None:
        """End what follows the runs of a document, or of some of its targets; what was found by then is still shown."""
        for key in [key for key in self._works if key[0] == uri and (names is None or key[1] in names)]:
            self._works.pop(key).end()

    def cancel(self, run_id: str | None) -> bool:
        """End what follows a run, or (None) all; say whether there was such work."""
        ended = [work.end() for work in self._works.values() if run_id in (None, work.run_id)]
        return any(ended)


class _Work:
    """What follows one run. What is found is shown as soon as it is."""

    def __init__(
        self, server: DrygradServer, runs: DryRuns, checker: Checker, run_id: str, outcome: Outcome, how: RunSettings
    ) -> None:
        self.run_id = run_id
        self._server, self._runs, self._checker = server, runs, checker
        self._outcome, self._how = outcome, how
        self._name = outcome.qualname or "the script"
        self._is_last = True
        """Whether the outcome is still the target's last one."""
        self._task: asyncio.Task[None] | None = None
        self._progress: Progress | None = None

    def start(self) -> None:
        """Begin it."""
        self._task = self._server.spawn(self._done(), f"what follows the run of {self._name}")

    def end(self) -> bool:
        """End it; say whether it was at work."""
        return self._task is not None and self._task.cancel()

    async def _done(self) -> None:
        try:
            await self._experimented()
            if len(self._outcome.seen) == 1:
                await self._completed((*self._outcome.seen, *await self._varied()))
            if self._is_last and any(one.findings or one.elsewhere for one in self._outcome.seen):
                self._report("fixes")
                verify, source = self._runs.service.verify, self._outcome.source
                await self._completed(tuple([await verify(one, source, self._how) for one in self._outcome.seen]))
        finally:
            if self._progress is not None:
                self._progress.close()

    async def _experimented(self) -> None:
        for number, one in enumerate(self._outcome.seen):

            def more(seen: Seen, number: int = number) -> None:
                if self._kept(self._with(number, seen)):
                    self._server.spawn(self._shown(), "showing what experiments have found")

            seen = await self._runs.service.experiment(one, self._how, self._hear, more)
            await self._completed(self._with(number, seen))

    async def _varied(self) -> Sequence[Seen]:
        self._report("other options")
        return await self._runs.service.vary(self._outcome.seen[0], self._how)

    def _hear(self, phase: str) -> None:
        """Say what is tried, from the first experiment on: until then nothing takes long."""
        if phase.startswith(_OF_EXPERIMENTS):
            self._progress = self._progress or Progress(self._server, f"Experiments: {self._name}", self._end)
            self._report(phase.removeprefix(_OF_EXPERIMENTS))

    def _end(self) -> None:
        self.end()

    def _report(self, what: str) -> None:
        if self._progress is not None:
            self._progress.report(what)

    def _with(self, number: int, seen: Seen) -> tuple[Seen, ...]:
        return (*self._outcome.seen[:number], seen, *self._outcome.seen[number + 1 :])

    async def _completed(self, seen: tuple[Seen, ...]) -> None:
        if self._kept(seen):
            await self._shown()

    def _kept(self, seen: tuple[Seen, ...]) -> bool:
        """Keep what is known by now; say whether that is something new, of what is still the target's last outcome."""
        if not self._is_last or seen == self._outcome.seen:
            return False
        memory = self._runs.memory(self._checker.uri)
        completed = None if self._checker.closed else memory.complete(self._outcome, seen)
        if completed is None:
            self._is_last = False
            return False
        self._runs.report_again(self._checker.uri, self.run_id, self._outcome.seen, completed)
        self._outcome = completed
        self._checker.edited(0)
        return True

    async def _shown(self) -> None:
        await self._checker.settled()
        self._runs.refresh()
