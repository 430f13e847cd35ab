"""``drygrad server`` with the real rules, from opening a file to the file mended."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from lsp_client import JSON, Start, apply_edits, debounced, progress_ends

ROOT = Path(__file__).parents[2]
WRONG = """\
import torch
import torch.nn.functional as F


def loss(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(F.softmax(logits, dim=1), target)
"""


def test_from_opening_a_file_to_the_file_mended(start: Start, tmp_path: Path) -> None:
    client = start(settings=debounced(0))
    client.initialize(tmp_path, options={"debounce": 0})
    uri = (tmp_path / "train.py").as_uri()
    (found,) = client.checked(uri, WRONG)
    assert (found["code"], found["range"]["start"]["line"]) == ("DG304", 5)
    hover = client.hover(uri, 5, found["range"]["start"]["character"])
    assert "applies `log_softmax` itself." in hover["contents"]["value"]
    actions = client.actions(uri, [found])
    fix = next(action for action in actions if action["kind"] == "quickfix" and action.get("isPreferred"))
    text = apply_edits(WRONG, fix["edit"]["documentChanges"][0]["edits"])
    assert client.published(uri, client.change(uri, {"text": text})) == []
    ignore = next(action for action in actions if action["title"] == "Ignore DG304 on this line")
    text = apply_edits(WRONG, ignore["edit"]["documentChanges"][0]["edits"])
    assert client.published(uri, client.change(uri, {"text": text})) == []
    # A run may see DG304, so that only runs could tell that its suppression silences nothing.
    mended = text.replace("F.softmax(logits, dim=1)", "logits").replace("ignore[DG304]", "ignore[DG312]")
    (unused,) = client.published(uri, client.change(uri, {"text": mended}))
    assert unused["code"] == "DG904"
    (action,) = client.actions(uri, [], ["source.fixAll"])
    clean = apply_edits(mended, action["edit"]["documentChanges"][0]["edits"])
    assert clean == WRONG.replace("F.softmax(logits, dim=1)", "logits")
    assert client.stop() == 0


def test_half_typed_text_keeps_what_was_found(start: Start) -> None:
    client = start(settings=debounced(0))
    client.initialize(options={"debounce": 0})
    client.checked("untitled:Untitled-1", WRONG)
    version = client.change("untitled:Untitled-1", {"text": "x = (\n" + WRONG})
    (kept,) = client.published("untitled:Untitled-1", version)
    assert (kept["code"], kept["range"]["start"]["line"]) == ("DG304", 6)


def test_the_project_is_heard_and_watched(start: Start, tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text('[tool.drygrad]\nignore = ["DG304"]\nignroe = 1\n')
    client = start()
    client.initialize(tmp_path)
    uri = (tmp_path / "train.py").as_uri()
    assert client.checked(uri, WRONG) == []
    (problem,) = client.published(project.as_uri())
    assert problem["range"]["start"] == {"line": 2, "character": 0}
    project.write_text('[tool.drygrad]\nseverity = { DG304 = "error" }\n')
    client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": project.as_uri(), "type": 2}]})
    client.wait(progress_ends)
    (found,) = client.sent("textDocument/publishDiagnostics")[-1]["diagnostics"]
    assert (found["code"], found["severity"]) == ("DG304", 1)


def test_the_log_goes_where_it_is_told_to(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    client = start("--log-file", str(log), "--log-level", "debug")
    client.initialize(tmp_path)
    client.send_bytes(b"nonsense")
    client.checked("file:///a.py", WRONG)
    assert client.stop() == 0
    assert "not JSON" in log.read_text()
    client = start("--log-file", str(tmp_path / "no" / "such" / "folder.log"))
    client.initialize(tmp_path)
    assert client.checked("file:///a.py", WRONG)


def receive(wire: Any) -> JSON:
    length = int(wire.readline().split(b":")[1])
    while wire.readline().strip():
        pass
    return json.loads(wire.read(length))


def test_over_a_local_port() -> None:
    command = [sys.executable, "-m", "drygrad", "server", "--tcp", "0"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / name) for name in ("server", "analyzers"))}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        port = int(process.stderr.readline().rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rwb") as wire:
            messages: list[dict[str, object]] = [
                {"id": 1, "method": "initialize", "params": {"processId": None, "rootUri": None, "capabilities": {}}},
                {"id": 2, "method": "shutdown"},
                {"method": "exit"},
            ]
            for message in messages:
                body = json.dumps({"jsonrpc": "2.0", **message}).encode()
                wire.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
                wire.flush()
            assert receive(wire)["result"]["serverInfo"]["name"] == "drygrad"
            assert receive(wire)["id"] == 2
        assert process.wait(180) == 0
