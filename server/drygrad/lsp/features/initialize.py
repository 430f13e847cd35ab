"""``initialize``, ``initialized``: what depends on the client is decided here, once."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from drygrad.lsp import logs
from drygrad.lsp.features import configuration, diagnostics
from drygrad.lsp.settings import FromEditor

if TYPE_CHECKING:
    from drygrad.lsp.server import DrygradServer

log = logging.getLogger(__name__)


def initialize(ls: DrygradServer, params: lsp.InitializeParams) -> None:
    """Take over what the client is and can."""
    logs.send_to_client(ls)
    ls.protocol.trace = params.trace or lsp.TraceValue.Off
    given = FromEditor.read(configuration.section(params.initialization_options))
    ls.session.settings.set_editor(given)
    ls.session.settings.trusted_at_start = given.personal.trusted
    configuration.set_log_level(ls)
    ls.session.start(params)
    diagnostics.register(ls)


def initialized(ls: DrygradServer, _: lsp.InitializedParams) -> None:
    """Ask for what is to be sent, and for the settings."""
    configuration.subscribe(ls)
    ls.spawn(configuration.load(ls), "reading the settings")


def register(server: DrygradServer) -> None:
    """Register the handlers."""
    server.feature(lsp.INITIALIZE)(initialize)
    server.feature(lsp.INITIALIZED)(initialized)
