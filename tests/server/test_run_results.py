"""What can be done with results: read them in any editor, compare runs, give other inputs, choose from a menu."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from dry_run_client import answering, last_run, ran, run
from lsp_client import JSON, Client, ResponseError, Start, debounced, edit, params_of

from drygrad.lsp.prewarm import QUIET_SECONDS

TEXT = """\
import torch

def step(x):
    y = tensor()
    fault()

def other():
    z = tensor()
"""


@pytest.fixture
def trusted(start: Start, tmp_path: Path) -> Client:
    client = start(settings=debounced(0))
    client.initialize(tmp_path, options={"debounce": 0, "trusted": True})
    return client


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return (tmp_path / "train.py").as_uri()


def results(client: Client, **target: object) -> Any:
    return client.request("drygrad/results", target)


def lens(client: Client, uri: str, line: int, title: str) -> JSON:
    found = [lens["command"] for lens in client.lenses(uri) if lens["range"]["start"]["line"] == line]
    return next(command for command in found if command["title"].startswith(title))


def test_the_runs_of_a_target_are_kept_apart_from_those_of_another(trusted: Client, uri: str) -> None:
    assert results(trusted) is None
    trusted.checked(uri, TEXT)
    first = ran(trusted, uri, "step")
    trusted.change(uri, edit(4, 4, 4, 9, "print"))
    ran(trusted, uri, "step")
    ran(trusted, uri, "other")
    last = results(trusted)
    assert (last["uri"], last["qualname"], len(last["entries"])) == (uri, "other", 1)
    assert [target["qualname"] for target in last["targets"]] == ["other", "step"]
    step = results(trusted, uri=uri, qualname="step")
    assert [entry["runs"][0]["outcome"] for entry in step["entries"]] == ["passed", "failed"]
    assert step["entries"][1]["runId"] == first["runId"]
    assert (first["uri"], first["asked"]) == (uri, True)


def test_a_few_runs_of_a_target_are_kept(trusted: Client, uri: str) -> None:
    trusted.checked(uri, TEXT)
    runs = [ran(trusted, uri, "other")["runId"] for _ in range(8)]
    kept = [entry["runId"] for entry in results(trusted, uri=uri, qualname="other")["entries"]]
    assert kept == runs[:1:-1]


def test_what_is_cleared_is_gone_from_the_history(trusted: Client, uri: str) -> None:
    trusted.checked(uri, TEXT)
    ran(trusted, uri, "step")
    trusted.command("drygrad.clear")
    assert results(trusted, uri=uri, qualname="step") == {"uri": uri, "qualname": "step", "entries": [], "targets": []}


def test_a_lens_tells_the_result_where_an_editor_shows_nothing_but_messages(trusted: Client, uri: str) -> None:
    trusted.checked(uri, TEXT)
    ran(trusted, uri, "step")
    command = lens(trusted, uri, 2, "✗")
    trusted.command(command["command"], *command["arguments"])
    told = params_of(trusted.wait(lambda message: message.get("method") == "window/showMessage"))
    assert told["message"].startswith("step: ✗ fault happened")


@pytest.mark.parametrize(
    ("chosen", "device"), [("Dry-run on the CPU", "cpu"), ("Unpin: stop running on every save", None)]
)
def test_the_menu_of_a_lens_works_in_any_editor(
    start: Start, tmp_path: Path, uri: str, chosen: str, device: str | None
) -> None:
    client = start(settings=debounced(0))
    client.replies["window/showMessageRequest"] = {"title": chosen}
    client.initialize(tmp_path, options={"debounce": 0, "trusted": True})
    client.checked(uri, TEXT)
    ran(client, uri, "other")
    command, begin = lens(client, uri, 6, "⋯"), time.perf_counter()
    client.command(command["command"], *command["arguments"])
    asked = params_of(client.wait(lambda message: message.get("method") == "window/showMessageRequest"))
    assert "Show the result" in [action["title"] for action in asked["actions"]]
    if device:
        client.wait(lambda m: (last_run(m) or {}).get("device") == device)
    else:
        client.wait(lambda m: m.get("method") == "workspace/codeLens/refresh", since=begin)
        assert not _pinned(client, uri)


def _pinned(client: Client, uri: str) -> bool:
    return any(lens["command"]["title"] == "● pinned" for lens in client.lenses(uri))


def test_a_script_is_run_by_itself(trusted: Client, uri: str) -> None:
    trusted.checked(uri, TEXT + "\nif main:\n    w = tensor()\n")
    assert ran(trusted, uri, None, script=True)["target"] is None
    assert results(trusted, uri=uri, qualname="step")["entries"] == []


def test_what_a_run_does_is_told_while_it_does_it(trusted: Client, uri: str) -> None:
    trusted.checked(uri, TEXT.replace("z = tensor()", "hang()"))
    run(trusted, uri)
    told = trusted.wait(lambda m: m.get("method") == "drygrad/status" and len(params_of(m)["phases"]) == 2)
    assert {one["target"]: one["phase"] for one in params_of(told)["phases"]}["other"] == "queued"
    trusted.wait(
        lambda m: m.get("method") == "drygrad/status" and [o["phase"] for o in params_of(m)["phases"]] == ["running"]
    )
    assert lens(trusted, uri, 6, "◌")["title"] == "◌ running: cancel"
    trusted.command("drygrad.cancel", {"runId": None})


def test_inputs_are_written_above_a_function(trusted: Client, uri: str) -> None:
    trusted.checked(uri, TEXT)
    asked = {"uri": uri, "qualname": "step", "inputs": "x=tensor()", "number": 1}
    assert trusted.command("drygrad.writeInputs", asked) is None
    (change,) = params_of(trusted.wait(lambda m: m.get("method") == "workspace/applyEdit"))["edit"]["documentChanges"]
    assert change["edits"][0]["newText"] == "# dry-run: x=tensor() # 1\n"
    assert trusted.command("drygrad.writeInputs", {**asked, "inputs": "x=("}) == "their brackets do not balance"
    with pytest.raises(ResponseError):
        trusted.command("drygrad.writeInputs", {"uri": uri, "qualname": "step"})


def test_a_worker_is_ready_before_the_first_run(start: Start, tmp_path: Path, uri: str) -> None:
    client = start(settings=debounced(0))
    client.initialize(tmp_path, options={"debounce": 0, "trusted": True})
    client.checked(uri, TEXT)
    status = client.wait(lambda m: m.get("method") == "drygrad/status" and params_of(m)["worker"]["state"] == "ready")
    assert params_of(status)["lastRun"] is None


@pytest.mark.parametrize(
    ("options", "text"),
    [({"trusted": False}, TEXT), ({"trusted": True, "prewarm": False}, TEXT), ({"trusted": True}, "print('torch')\n")],
)
def test_no_worker_is_started_ahead_where_it_may_not_or_need_not_be(
    start: Start, tmp_path: Path, uri: str, options: JSON, text: str
) -> None:
    client = start(settings=answering({"debounce": 0, **options}))
    client.initialize(tmp_path, options={"debounce": 0, **options})
    client.checked(uri, text)
    time.sleep(QUIET_SECONDS * 1.5)  # nothing tells that it does not come
    assert {status["worker"]["state"] for status in client.sent("drygrad/status")} <= {"stopped"}
