"""Names that a file imports: the server looks them up in the files that define them, and again when these are saved."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from dry_run_client import answering, published
from lsp_client import JSON, Client, Start, debounced, edit

TRAIN = """\
import torch
from .models import Net


def main():
    model = Net()
    return model.forward(torch.randn(3))
"""
LOSS = """\
import torch.nn.functional as F
from .helpers import rate


def loss(x, y):
    return F.cross_entropy(rate(x), y)
"""
MODULE = "import torch.nn as nn\n\n\nclass Net(nn.Module):\n    pass\n"
OTHER = "class Net:\n    pass\n"


def published_codes(message: JSON, uri: str) -> list[str] | None:
    if message.get("method") != "textDocument/publishDiagnostics" or message["params"]["uri"] != uri:
        return None
    return [diagnostic["code"] for diagnostic in message["params"]["diagnostics"]]


def until(client: Client, uri: str, codes: list[str]) -> None:
    """Wait until a text has these findings; a look-up that a busy machine gave up is asked for again by an edit."""
    for _ in range(20):
        with contextlib.suppress(TimeoutError):
            since = time.perf_counter()
            if codes_shown(client, uri) != codes:
                client.wait(lambda message: published_codes(message, uri) == codes, since=since, timeout=5.0)
            return
        client.change(uri, edit(0, 0, 0, 0, "\n"))
    raise AssertionError(codes_shown(client, uri))


def codes_shown(client: Client, uri: str) -> list[str]:
    """Return what was published last."""
    return [diagnostic["code"] for diagnostic in published(client, uri)]


def test_a_class_of_another_file_is_known_and_forgotten_with_it(start: Start, tmp_path: Path) -> None:
    models = tmp_path / "models.py"
    models.write_text(MODULE)
    client = start(settings=debounced(0))
    client.initialize(tmp_path, options={"debounce": 0})
    uri = (tmp_path / "train.py").as_uri()
    client.open(uri, TRAIN)
    until(client, uri, ["DG749"])
    models.write_text(OTHER)
    client.notify("textDocument/didSave", {"textDocument": {"uri": models.as_uri()}})
    until(client, uri, [])


def test_what_is_installed_is_looked_up_beside_the_interpreter_of_the_editor(start: Start, tmp_path: Path) -> None:
    packages = tmp_path / "environment" / "lib" / "python3.12" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "installed.py").write_text(MODULE)
    given: JSON = {"debounce": 0}
    client = start(settings=answering(given))
    project = tmp_path / "project"
    project.mkdir()
    client.initialize(project, options=given)
    uri = (project / "train.py").as_uri()
    assert client.checked(uri, TRAIN.replace(".models", "installed")) == []
    given["interpreter"] = str(tmp_path / "environment" / "bin" / "python")
    client.notify("workspace/didChangeConfiguration", {"settings": None})
    until(client, uri, ["DG749"])


def test_a_function_of_another_file_is_followed_and_read_again_when_it_is_saved(start: Start, tmp_path: Path) -> None:
    helpers = tmp_path / "helpers.py"
    helpers.write_text("import torch\n\n\ndef rate(x):\n    return torch.softmax(x, dim=-1)\n")
    client = start(settings=debounced(0))
    client.initialize(tmp_path, options={"debounce": 0})
    uri = (tmp_path / "loss.py").as_uri()
    client.open(uri, LOSS)
    until(client, uri, ["DG304"])
    helpers.write_text("def rate(x):\n    return x.sin()\n")
    client.notify("textDocument/didSave", {"textDocument": {"uri": helpers.as_uri()}})
    until(client, uri, [])
