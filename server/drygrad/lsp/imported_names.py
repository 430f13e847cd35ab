"""What imported names are: asked of a helper process where a check could not tell, told to the checker later."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from drygrad.interpreters import find_interpreter, site_packages
from drygrad.lsp.settings import path_of

if TYPE_CHECKING:
    from drygrad.lsp.checking import Checker
    from drygrad.lsp.server import DrygradServer
    from drygrad.static.lookup.client import LookupClient, Place


class ImportedNames:
    """Answers the questions that the checks of open documents leave, off the typing path."""

    def __init__(self, server: DrygradServer) -> None:
        self._server = server
        self._client: LookupClient | None = None
        self._asked: WeakKeyDictionary[Checker, set[str]] = WeakKeyDictionary()
        self._interpreters: WeakKeyDictionary[Checker, str | None] = WeakKeyDictionary()
        server.session.listeners.append(self.checked)

    def checked(self, checker: Checker) -> None:
        """Ask what a check has left open, and all of it again for another interpreter."""
        asked = self._asked.setdefault(checker, set())
        chosen = self._chosen(checker.uri)
        other = self._interpreters.setdefault(checker, chosen) != chosen
        self._interpreters[checker] = chosen
        if other and self._client is not None:
            self._client.forget(Path("site-packages"))  # as if all that is installed had changed
        new = checker.questions | asked if other else checker.questions - asked
        if new:
            asked |= new
            self._server.spawn(self._answer(checker, new), "looking up imported names")

    def changed(self, paths: Iterable[Path]) -> None:
        """Ask again: what some files define may be another thing now."""
        if self._client is None:
            return
        for path in paths:
            self._client.forget(path)
        for checker, names in list(self._asked.items()):
            if names and not checker.closed:
                self._server.spawn(self._answer(checker, names), "looking up imported names")

    async def _answer(self, checker: Checker, names: Iterable[str]) -> None:
        from drygrad.static.lookup.ancestry import ancestry_of  # noqa: PLC0415 - not needed to start
        from drygrad.static.lookup.client import LookupClient  # noqa: PLC0415
        from drygrad.static.lookup.library import library_of  # noqa: PLC0415

        place = self._place(checker.uri)
        if place is None:
            return
        self._client = self._client or LookupClient()
        answers = await self._client.ask(place, names)
        library = library_of(place.root, place.interpreter_paths)
        links = await asyncio.to_thread(library.links, place.path, [*self._asked.get(checker, ())])
        if not checker.closed:
            checker.learn(ancestry_of(answers), links)

    def _chosen(self, uri: str) -> str | None:
        """Return the interpreter that the editor names."""
        return self._server.session.resolve(uri).personal.interpreter

    def _place(self, uri: str) -> Place | None:
        from drygrad.static.lookup.client import Place  # noqa: PLC0415 - not needed to start

        path = path_of(uri)
        if path is None:
            return None
        root = self._server.session.settings.root_of(path)
        return Place(path, root, site_packages(find_interpreter(root, self._chosen(uri), path)))
