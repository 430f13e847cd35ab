"""Forecasts in the editor with the real worker: what is shown of them, and that the command line says the same."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dry_run_client import ENDED, answering, published, settings, shown
from lsp_client import JSON, Client, apply_edits, edit, params_of

from drygrad.cli.main import main
from drygrad.dryrun.short_forecast import size

ROOT = Path(__file__).parents[2]
PATHS = os.pathsep.join([str(ROOT / "server"), str(ROOT / "analyzers")])
PROGRAM = """\
import torch
from torch import nn

from head import Head

batch_size = 4096


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(1024, 16384)
        self.head = Head()

    def forward(self, x):
        wide = torch.tanh(self.up(x))
        return self.head(wide)


def train():
    net = Net().cuda()
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(3):
        loss = net(torch.randn(batch_size, 1024, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def nothing():
    return 1
"""
HEAD = """\
from torch import nn


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Linear(16384, 1024)

    def forward(self, wide):
        gated = wide.sigmoid() * wide
        return self.down(gated)
"""
TANH, TRAIN, BATCH = (
    next(number for number, line in enumerate(PROGRAM.splitlines()) if text in line)
    for text in ("torch.tanh", "def train", "batch_size = ")
)
GATED = 9
GPU = "2GiB"


class Lab:
    """One server, whose forecast with what-if every test here reads."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.client, self.folder = client, folder
        self.uri, self.head = ((folder / name).as_uri() for name in ("train.py", "head.py"))

    def forecast(self, qualname: str, **more: object) -> JSON:
        """Make a forecast; return the status when it is over."""
        answer = self.client.command("drygrad.forecast", {"uri": self.uri, "qualname": qualname, **more})
        assert answer["runId"], answer

        def over(message: JSON) -> bool:
            status = params_of(message) if message.get("method") == "drygrad/status" else {}
            last: JSON = status.get("lastForecast") or {}
            return last.get("runId") == answer["runId"] and not status["running"]

        return params_of(self.client.wait(over, timeout=ENDED))

    @property
    def told(self) -> JSON:
        """What a panel gets."""
        return self.client.request("drygrad/forecast", {"uri": self.uri, "qualname": "train"})

    def labels(self, uri: str) -> dict[int, str]:
        return {hint["position"]["line"]: hint["label"] for hint in self.client.hints(uri) if hint["label"][0] == "+"}

    def rewrites(self, line: int) -> list[JSON]:
        place = {"line": line, "character": 0}
        context: JSON = {"diagnostics": [], "only": ["refactor.rewrite"]}
        asked = {"textDocument": {"uri": self.uri}, "range": {"start": place, "end": place}, "context": context}
        return self.client.request("textDocument/codeAction", asked)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("forecasts")
    (folder / "head.py").write_text(HEAD)
    (folder / "train.py").write_text(PROGRAM)
    ours = settings(gpu=GPU, searchTime=0.1)
    client = Client([sys.executable, "-m", "drygrad", "server"], env={"PYTHONPATH": PATHS}, settings=answering(ours))
    client.initialize(folder, options=ours)
    made = Lab(client, folder)
    client.checked(made.uri, PROGRAM)
    client.checked(made.head, HEAD)
    status = made.forecast("train", whatIf=True)
    assert "does not fit 2GiB" in status["lastForecast"]["text"]
    yield made
    client.kill()


def test_the_command_line_says_the_same(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["forecast", f"{lab.folder / 'train.py'}::train", "--gpu", GPU, "--output-format", "json"]
    main([*arguments, "--python", sys.executable, "--no-progress"])
    (printed,) = json.loads(capsys.readouterr().out)["forecasts"]
    shown: Any = lab.told["forecast"]["forecast"]
    assert {**shown, "what_if": []} == printed["forecast"]
    assert lab.told["forecast"]["plot"].count("<svg") == 1


def test_lines_say_what_they_hold_at_the_peak_in_other_files_too(lab: Lab) -> None:
    wide = f"{size(4 * 4096 * 16384)} of activations, 8 MiB of workspaces"
    assert lab.labels(lab.uri)[TANH] == "+264 MiB"
    assert lab.labels(lab.head)[GATED] == f"+{size(3 * 4 * 4096 * 16384)}"
    told = lab.client.hover(lab.uri, TANH, 8)["contents"]["value"]
    assert f"this line holds 264 MiB ({wide})" in told
    assert "made by tanh in forward, kept for the backward of tanh on line 16" in told
    assert "what if: batches of 2048 instead of 4096 (`batch_size` on line 6): 128 MiB less on this line" in told


def test_the_function_says_what_all_of_it_takes(lab: Lab) -> None:
    told = lab.client.hover(lab.uri, TRAIN, 6)["contents"]["value"]
    peak = lab.told["forecast"]["forecast"]
    assert f"{size(peak['peak_allocated'])} allocated at the peak" in told
    assert f"{size(peak['peak_reserved'])} reserved; does not fit 2GiB (1.51 GiB usable)" in told
    titles = [lens["command"]["title"] for lens in lab.client.lenses(lab.uri)]
    assert f"{size(peak['peak_reserved'])} of GPU memory, does not fit 2GiB (1.51 GiB usable)" in titles
    lab.client.command("drygrad.tellForecast", {"uri": lab.uri, "qualname": "train"})
    message = lab.client.sent("window/showMessage")[-1]["message"]
    assert message.count("what if: ") == len(peak["what_if"]) > 5


def test_what_does_not_fit_is_a_warning_with_what_fits(lab: Lab) -> None:
    (found,) = shown(lab.client, lab.uri, lambda items: items)
    refused = lab.told["forecast"]["forecast"]["refused"]
    assert (found["code"], found["severity"], found["range"]["start"]["line"]) == ("DG507", 2, TRAIN)
    assert "but torch can use 1.51 GiB of the GPU; the first allocation that does not fit is" in found["message"]
    where = found["relatedInformation"][0]["location"]
    assert (where["uri"], where["range"]["start"]["line"]) == (lab.head, refused["line"] - 1)
    related = [one["message"] for one in found["relatedInformation"]]
    assert f"{size(2 * 4 * 1024 * 16384)} of parameters at the peak" in related
    (fix, *_) = lab.client.actions(lab.uri, [found])
    assert fix["title"] == "Use batches of 2048 instead of 4096 (`batch_size` on line 6) (verified, unsafe)"
    (change,) = fix["edit"]["documentChanges"]
    assert apply_edits(PROGRAM, change["edits"]) == PROGRAM.replace("4096", "2048")


def test_changes_are_offered_where_they_change_the_text(lab: Lab) -> None:
    titles = {line: [action["title"] for action in lab.rewrites(line)] for line in (BATCH, TRAIN, TANH)}
    assert set(titles[BATCH]) < set(titles[TRAIN]) and not titles[TANH]
    assert "Use batches of 2048 instead of 4096 (`batch_size` on line 6)" in titles[BATCH]


def test_a_change_is_applied_by_its_name(lab: Lab) -> None:
    change = next(row["change"] for row in lab.told["forecast"]["forecast"]["what_if"] if row["edits"])
    argument = {"uri": lab.uri, "qualname": "train", "change": change}
    assert lab.client.command("drygrad.applyChange", argument) is None
    (asked,) = lab.client.sent("workspace/applyEdit")
    assert asked["edit"]["documentChanges"][0]["edits"]
    assert "forecast again" in lab.client.command("drygrad.applyChange", {**argument, "change": "nothing of it"})


def test_a_forecast_that_cannot_be_made_says_why(lab: Lab) -> None:
    why = "no forecast: it makes no tensors"
    assert lab.forecast("nothing")["lastForecast"]["text"] == why
    assert why in [sent["message"] for sent in lab.client.sent("window/showMessage")]


def test_lines_move_with_the_text_and_go_when_what_was_followed_changes(lab: Lab) -> None:
    """The last test of the module: it changes the text."""
    client = lab.client
    before, at = lab.labels(lab.uri), published(client, lab.uri)[0]["range"]["start"]["line"]
    client.change(lab.uri, edit(0, 0, 0, 0, "# new\n"))
    shown(client, lab.uri, lambda items: [item["range"]["start"]["line"] for item in items] == [at + 1])
    assert lab.labels(lab.uri) == {line + 1: label for line, label in before.items()}
    assert lab.rewrites(BATCH + 1) and not lab.rewrites(BATCH)
    client.change(lab.uri, edit(1, 0, 1, 0, "x = (\n"))
    assert lab.labels(lab.uri) == {line + 2: label for line, label in before.items()}, "while it does not parse, too"
    client.change(lab.uri, edit(1, 0, 2, 0, ""))
    client.change(lab.head, edit(GATED, 0, GATED, 0, "        wide = wide.abs()\n"))
    shown(client, lab.uri, lambda items: not items)
    assert lab.labels(lab.uri) == lab.labels(lab.head) == {}, "the file that it depends on is another"
