"""What tests ask of dry runs in the editor, and what they wait for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import warm_workers
from lsp_client import JSON, Client, params_of

ENDED = 300.0
"""Seconds within which any run of a test is over, the start of a worker included."""


def settings(**more: object) -> JSON:
    """Return what an editor says of a workspace that may be run here; the workers of this Python are forked."""
    launcher = [] if "interpreter" in more else [*warm_workers.shared().prefix()]
    ours = {"interpreter": sys.executable, "launcher": launcher}
    return {"debounce": 0, "trusted": True, "device": "sim", "prewarm": False, **ours, **more}


def answering(given: Any) -> Callable[[JSON], Any]:
    """Return what answers every question for settings."""
    return lambda item: given


def run(client: Client, uri: str, qualname: str | None = None, **more: object) -> str:
    """Ask for a run, and return its id."""
    answer = client.command("drygrad.dryRun", {"uri": uri, "qualname": qualname, **more})
    assert answer["runId"], answer
    return answer["runId"]


def last_run(message: JSON) -> JSON:
    """Return what a status says of the last run."""
    status = params_of(message) if message.get("method") == "drygrad/status" else {}
    return status.get("lastRun") or {}


def has_begun(message: JSON) -> bool:
    """Say whether a message tells that the target of a run is executed now."""
    return message.get("method") == "$/progress" and params_of(message)["value"].get("message") == "running"


def finished(client: Client, run_id: str) -> JSON:
    """Wait until a run is over; return how it ended."""

    def over(message: JSON) -> bool:
        return last_run(message).get("runId") == run_id and run_id not in params_of(message)["running"]

    return last_run(client.wait(over, timeout=ENDED))


def ran(client: Client, uri: str, qualname: str | None = None, **more: object) -> JSON:
    """Ask for a run, and wait until it is over."""
    return finished(client, run(client, uri, qualname, **more))


def published(client: Client, uri: str) -> list[JSON]:
    """Return what was last published of a text."""
    items = [p["diagnostics"] for p in client.sent("textDocument/publishDiagnostics") if p["uri"] == uri]
    return items[-1] if items else []


def shown(client: Client, uri: str, wanted: Callable[[list[JSON]], object]) -> list[JSON]:
    """Wait until what is published last of a text is as wanted."""
    client.wait(lambda message: "method" in message and wanted(published(client, uri)), timeout=ENDED)
    return published(client, uri)
