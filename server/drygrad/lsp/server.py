"""``drygrad server``: the language server, put together."""

from __future__ import annotations

import gc
import logging
from pathlib import Path
from typing import NoReturn, cast

from lsprotocol import types as lsp

from drygrad.lsp import features, logs
from drygrad.lsp.base.server import BaseServer
from drygrad.lsp.dry_run_service import DryRunService
from drygrad.lsp.dry_runs import DryRuns
from drygrad.lsp.forecasts import Forecasts
from drygrad.lsp.imported_names import ImportedNames
from drygrad.lsp.later_dry_runs import LaterDryRuns
from drygrad.lsp.launches import Launches
from drygrad.lsp.prewarm import Prewarm
from drygrad.lsp.project_check import ProjectCheck
from drygrad.lsp.session import AnalyzerFactory, Session, static_analyzer
from drygrad.lsp.tidying import Tidying
from drygrad.version import __version__

log = logging.getLogger(__name__)

GARBAGE_THRESHOLD = 50_000
"""A check allocates more than that; by default the collector would interrupt each of them dozens of times."""

_PYTHON_CELLS = lsp.NotebookDocumentFilterWithNotebook(
    notebook=lsp.NotebookDocumentFilterNotebookType(notebook_type="jupyter-notebook"),
    cells=[lsp.NotebookCellLanguage(language="python")],
)


class DrygradServer(BaseServer):
    """The server, its session and its dry runs."""

    def __init__(self, service: DryRunService, analyzer_factory: AnalyzerFactory = static_analyzer) -> None:
        super().__init__(
            "drygrad",
            __version__,
            notebook_document_sync=lsp.NotebookDocumentSyncOptions([_PYTHON_CELLS], save=True),
        )
        self.session = Session(self, analyzer_factory)
        self.imported_names = ImportedNames(self)
        self.dry_runs = DryRuns(self, service)
        self.forecasts = Forecasts(self, service)
        self._prewarm = Prewarm(self)
        self.launches = Launches()
        self.project_check: ProjectCheck | None = None
        self.session.listeners.append(Tidying().checked)
        features.register(self)


def main(tcp: int | None = None, log_file: str | Path | None = None, log_level: str = "info") -> NoReturn:
    """Serve one client until it leaves, over stdio or, for debugging, over a local port."""
    logs.set_up(Path(log_file) if log_file else None, log_level)
    server = DrygradServer(cast("DryRunService", LaterDryRuns()))
    gc.set_threshold(GARBAGE_THRESHOLD)
    gc.freeze()  # the protocol's classes live for ever; the collector need not visit them while one types
    gc.enable()
    if tcp is None:
        server.run_stdio()
    server.run_tcp(tcp)
