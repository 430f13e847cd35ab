"""Fixes in the editor with the real worker: tried in the background, applied, undone."""

from __future__ import annotations

from pathlib import Path

import pytest
from dry_run_client import answering, finished, run, settings, shown
from lsp_client import JSON, Client, Start, apply_edits

TEXT = """\
import torch


# dry-run: x=torch.rand(4, 3, requires_grad=True)
def limited(x):
    rate = x.exp()
    rate.clamp_(max=2.0)
    return rate.log()
"""


@pytest.fixture
def client(start: Start, tmp_path: Path) -> Client:
    given = settings(device="cpu")
    client = start(settings=answering(given))
    client.initialize(tmp_path, options=given)
    return client


def is_verified(items: list[JSON]) -> bool:
    return any(fix.get("verified") for item in items for fix in item["data"]["fixes"])


def is_overwritten(items: list[JSON]) -> bool:
    return [item["code"] for item in items] == ["DG101"]


def test_a_verified_fix_leaves_the_function_clean_and_undo_brings_the_finding_back(
    client: Client, tmp_path: Path
) -> None:
    uri = (tmp_path / "train.py").as_uri()
    client.checked(uri, TEXT)
    run(client, uri, "limited")
    found = shown(client, uri, is_verified)
    actions = client.actions(uri, found, only=["quickfix"])
    titles = [action["title"] for action in actions]
    assert titles[0] == "Replace `clamp_` with `clamp` (verified)"
    assert [action["title"] for action in actions if action.get("isPreferred")] == titles[:1]

    (change,) = actions[0]["edit"]["documentChanges"]
    repaired = apply_edits(TEXT, change["edits"])
    assert "rate = rate.clamp(max=2.0)" in repaired
    client.change(uri, {"text": repaired})
    assert shown(client, uri, lambda items: not items) == []
    client.save(uri)
    assert finished(client, "run-2")["outcome"] == "passed"
    assert shown(client, uri, lambda items: not items) == []

    client.change(uri, {"text": TEXT})
    again = shown(client, uri, is_overwritten)
    assert is_verified(again)
    client.save(uri)
    assert is_overwritten(shown(client, uri, is_verified))
    assert client.stop() == 0
