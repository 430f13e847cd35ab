"""Fixes in the editor with the real worker: tried in the background, applied, undone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from lsp_client import JSON, Client, Start, apply_edits, params_of

pytest.importorskip("torch")

TEXT = """\
import torch


# dry-run: x=torch.rand(4, 3, requires_grad=True)
def limited(x):
    rate = x.exp()
    rate.clamp_(max=2.0)
    return rate.log()
"""
SETTINGS: JSON = {"debounce": 0, "trusted": True, "device": "cpu", "interpreter": sys.executable}


def _answer(item: JSON) -> JSON:
    del item
    return SETTINGS


@pytest.fixture
def client(start: Start, tmp_path: Path) -> Client:
    client = start(settings=_answer)
    client.initialize(tmp_path, options=SETTINGS)
    return client


def shown(client: Client, uri: str, wanted: Callable[[list[JSON]], bool]) -> list[JSON]:
    """Wait until what is published last of a text is as wanted."""

    def last() -> list[JSON]:
        published = [p["diagnostics"] for p in client.sent("textDocument/publishDiagnostics") if p["uri"] == uri]
        return published[-1] if published else []

    client.wait(lambda message: "method" in message and wanted(last()), timeout=60)
    return last()


def is_verified(items: list[JSON]) -> bool:
    return any(fix.get("verified") for item in items for fix in item["data"]["fixes"])


def is_overwritten(items: list[JSON]) -> bool:
    return [item["code"] for item in items] == ["DG101"]


def _has_passed(message: JSON) -> bool:
    last: JSON = params_of(message).get("lastRun") or {} if message.get("method") == "drygrad/status" else {}
    return "passed" in last.get("text", "")


def test_a_verified_fix_leaves_the_function_clean_and_undo_brings_the_finding_back(
    client: Client, tmp_path: Path
) -> None:
    uri = (tmp_path / "train.py").as_uri()
    client.checked(uri, TEXT)
    client.command("drygrad.dryRun", {"uri": uri, "version": None, "qualname": "limited"})
    found = shown(client, uri, is_verified)
    actions = client.actions(uri, found, only=["quickfix"])
    titles = [action["title"] for action in actions]
    assert titles[0] == "Write out of place: bind `rate` to a new tensor (verified)"
    assert [action["title"] for action in actions if action.get("isPreferred")] == titles[:1]

    (change,) = actions[0]["edit"]["documentChanges"]
    repaired = apply_edits(TEXT, change["edits"])
    assert "rate = rate.clamp(max=2.0)" in repaired
    client.change(uri, {"text": repaired})
    assert shown(client, uri, lambda items: not items) == []
    client.save(uri)
    passed = client.wait(_has_passed, timeout=60)
    assert passed["params"]["lastRun"]["target"] == "limited"
    assert shown(client, uri, lambda items: not items) == []

    client.change(uri, {"text": TEXT})
    again = shown(client, uri, is_overwritten)
    assert is_verified(again)
    client.save(uri)
    assert is_overwritten(shown(client, uri, is_verified))
    assert client.stop() == 0
