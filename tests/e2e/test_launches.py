"""Launches in the editor: those that a project offers, and a run of a program as one of them starts it."""

from __future__ import annotations

from pathlib import Path

from dry_run_client import answering, finished, run, settings, shown
from lsp_client import Client, Start

TRAIN = """\
import sys

import torch

torch.ones(3)[int(sys.argv[1])]
"""


def test_a_program_is_run_as_a_launch_of_the_project_starts_it(start: Start, tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("broken:\n\tpython train.py 7\nright:\n\tpython train.py 1\n")
    (tmp_path / "train.py").write_text(TRAIN)
    quick = settings(experimentTime=0, verifyTime=0.1, device="cpu", launch="right")
    client: Client = start(settings=answering(quick))
    client.initialize(tmp_path, options=quick)
    uri = (tmp_path / "train.py").as_uri()
    client.open(uri, TRAIN)
    offered = client.command("drygrad.launches", {"uri": uri})
    assert [(one["id"], one["name"], one["command"]) for one in offered] == [
        ("Makefile:2", "broken", "python train.py 7"),
        ("Makefile:4", "right", "python train.py 1"),
    ]
    assert [lens["command"]["title"] for lens in client.lenses(uri)] == [
        "▶ Dry-run script",
        "▶ Dry-run with right",
        "▶ Forecast",
        "⋯",
    ]
    (argument,) = client.lenses(uri)[1]["command"]["arguments"]
    assert argument["launch"] == "Makefile:4"
    assert finished(client, run(client, uri))["text"].startswith("✓ passed")
    finished(client, run(client, uri, launch="Makefile:2"))
    shown(client, uri, lambda items: [item["code"] for item in items] == ["DG302"])
    finished(client, run(client, uri, launch="gone"))
    shown(client, uri, lambda items: ["no launch is called gone" in item["message"] for item in items] == [True])
