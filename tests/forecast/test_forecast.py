"""What a forecast tells: the peak by phase, line and kind, what keeps tensors, what first does not fit."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from worker_client import WorkerClient, plan

from drygrad.cli.main import main
from drygrad.dryrun.memory_plot import memory_plot
from drygrad.gpus import gpu_named

PROGRAM = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(4096, 16384)
        self.down = nn.Linear(16384, 4096)

    def forward(self, x):
        wide = torch.tanh(self.up(x))
        return self.down(wide)

def train(batch=65536):
    net = Net().to("cuda")
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(3):
        x = torch.randn(batch, 4096).to("cuda")
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(loss.item())

if __name__ == "__main__":
    train()
"""
WEIGHTS = 4 * (2 * 4096 * 16384 + 16384 + 4096)
X = 4 * 65536 * 4096
WIDE = 4 * 65536 * 16384
GIB = 1 << 30
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The result of one forecast, for all that is asked of it here."""
    gpu = gpu_named("rtx3060").as_wire()
    with WorkerClient() as worker:
        wanted = plan(tmp_path_factory.mktemp("forecast"), PROGRAM, device="sim", forecast={"gpu": gpu})
        result = worker.run(wanted)
    assert result["outcome"] == "passed", result["error"]
    return result


@pytest.fixture(scope="module")
def forecast(told: Any) -> Any:
    return told["forecast"]


def test_lines_and_kinds_add_up_to_the_peak(forecast: Any) -> None:
    assert forecast["peak_allocated"] == sum(row["bytes"] for row in forecast["by_line"])
    assert forecast["peak_allocated"] == sum(forecast["kinds"].values())
    assert forecast["peak_allocated"] <= forecast["peak_reserved"]
    assert max(forecast["phases"].values()) == forecast["peak_allocated"]


def test_kinds(forecast: Any) -> None:
    """At the peak, tanh's gradient is computed: of what went before there are the product and what tanh has kept."""
    kinds = forecast["kinds"]
    assert abs(kinds["parameters"] - WEIGHTS) < 1 << 20
    assert abs(kinds["states"] - 2 * WEIGHTS) < 1 << 20
    assert kinds["inputs"] == X
    assert kinds["activations"] >= WIDE
    assert list(forecast["phases"]) == ["forward", "backward", "optimizer"]


def test_lines(forecast: Any) -> None:
    held = {(row["line"], row["kind"]): row["bytes"] for row in forecast["by_line"]}
    assert held[11, "activations"] == WIDE
    assert abs(held[15, "parameters"] - WEIGHTS) < 1 << 20
    assert abs(held[21, "states"] - 2 * WEIGHTS) < 1 << 20
    assert held[18, "inputs"] == X


def test_tensors_with_what_keeps_them(forecast: Any) -> None:
    named = {row["name"]: row for row in forecast["tensors"]}
    assert {"up.weight", "down.weight", "exp_avg of up.weight"} <= named.keys()
    kept = [row["kept_by"] for row in forecast["tensors"] if row["kind"] == "activations"]
    assert (11, "tanh") in [(one["line"], one["operation"]) for one in kept]
    sizes = [row["bytes"] for row in forecast["tensors"]]
    assert sizes == sorted(sizes, reverse=True)


def test_what_first_does_not_fit(forecast: Any) -> None:
    assert forecast["fits"] is False
    refused = forecast["refused"]
    assert (refused["line"], refused["phase"]) in {
        (11, "backward"),
        (20, "backward"),
        (21, "optimizer"),
        (11, "forward"),
    }
    assert refused["allocated"] + refused["bytes"] + forecast["context"] > 11 * GIB


def test_a_bound_of_a_step(forecast: Any) -> None:
    time = forecast["time"]
    assert time["of"] == "a step"
    assert time["flops"] >= 5 * 2 * 65536 * 4096 * 16384
    assert time["seconds"] >= time["flops"] / 12.7e12


def test_where_the_host_waits_and_what_is_copied(forecast: Any) -> None:
    waits = forecast["time"]["waits"]
    assert [(wait["kind"], wait["line"], wait["bytes"]) for wait in waits] == [("h2d", 18, X), ("sync", 23, 0)]


COPIES = """\
import torch

there = torch.randn(1 << 20, device="cuda")
here = torch.empty(1 << 20, pin_memory=True)
here.copy_(there, non_blocking=True)
there.cpu()
there.copy_(here)
"""


def test_copies_between_host_and_gpu_are_counted_once(tmp_path: Path, worker: WorkerClient) -> None:
    gpu = gpu_named("a100").as_wire()
    result = worker.run(plan(tmp_path, COPIES, device="sim", forecast={"gpu": gpu}))
    waits = result["forecast"]["time"]["waits"]
    found = {(wait["line"], wait["kind"], wait["bytes"]) for wait in waits}
    assert found == {(5, "d2h", 4 << 20), (6, "d2h", 4 << 20), (7, "h2d", 4 << 20)}


STREAMS = """\
import torch

def load(used):
    side = torch.cuda.Stream()
    for _ in range(3):
        with torch.cuda.stream(side):
            x = torch.randn(1 << 22, device="cuda")
        torch.cuda.current_stream().wait_stream(side)
        if used:
            x.record_stream(torch.cuda.current_stream())
        y = x + 1
        del x
    torch.cuda.synchronize()

load({used})
"""


@pytest.mark.parametrize("used", [False, True])
def test_memory_that_another_stream_uses_waits_for_the_host(tmp_path: Path, worker: WorkerClient, used: bool) -> None:
    result = worker.run(plan(tmp_path, STREAMS.format(used=used), device="sim", forecast={"gpu": None}))
    told = result["forecast"]
    assert (result["outcome"], told["peak_allocated"]) == ("passed", 3 << 24)
    loaded = 3 if used else 1
    assert told["peak_reserved"] == (loaded + 2) << 24, "two sums live at a time"
    assert any("record_stream" in each for each in told["assumptions"]) == used


def test_what_was_assumed(forecast: Any) -> None:
    assert forecast["assumptions"] == ["line 23: a number was taken to be 0 (3 times)"]


def test_steps_grow_by_nothing(forecast: Any) -> None:
    assert len(forecast["steps"]) == 3
    assert len(set(forecast["steps"])) == 1


def test_memory_over_time_is_told_by_kind(forecast: Any) -> None:
    samples = forecast["over_time"]
    assert all(sum(sample["kinds"].values()) == sample["bytes"] <= sample["reserved"] for sample in samples)
    highest = max(samples, key=lambda sample: sample["bytes"])
    assert (highest["bytes"], highest["at"]) == (forecast["peak_allocated"], forecast["peak_at"])
    assert highest["kinds"] == forecast["kinds"]
    assert [mark["name"] for mark in forecast["marks"]] == ["backward", "backward-end", "step", "step-end"] * 3
    assert samples[0]["at"] < forecast["marks"][-1]["at"] <= samples[-1]["at"]


def test_the_picture_has_its_curve_to_scale(forecast: Any) -> None:
    picture = ElementTree.fromstring(memory_plot(forecast, "a <b> & c", "RTX 3060"))

    def all_of(tag: str, style: str) -> list[ElementTree.Element]:
        return [each for each in picture.iter(f"{SVG}{tag}") if each.get("class") == style]

    texts = ["".join(each.itertext()) for each in picture.iter(f"{SVG}text")]
    assert "a <b> & c" in texts
    assert any(text.startswith("room on RTX 3060: 11.6 GiB") for text in texts), texts
    assert all(f"step {number}" in texts for number in (1, 2, 3))
    zero, _, second = (float(str(line.get("d")).split()[1].split("H")[0]) for line in all_of("path", "grid")[:3])
    assert any(text.startswith("peak 14.8 GiB, line ") for text in texts), texts
    (peak,) = all_of("circle", "peak")
    first_tick = next(float(text[:-4]) for text in texts if re.fullmatch(r"\d+ GiB", text))
    of_a_pixel = 2 * first_tick * GIB / (zero - second)
    assert (zero - float(str(peak.get("cy")))) * of_a_pixel == pytest.approx(forecast["peak_allocated"], rel=0.01)
    areas = {style for style in forecast["kinds"] if all_of("path", style)}
    assert areas == {*forecast["kinds"]}
    assert len(all_of("path", "refused")) == 1


def test_a_picture_without_a_gpu_and_without_a_step(forecast: Any) -> None:
    less: dict[str, Any] = {**forecast, "memory": None, "context": None, "marks": [], "refused": None}
    picture = memory_plot(less, "less")
    assert "limit" not in picture.partition("</style>")[2]
    nothing: dict[str, Any] = {
        **less,
        "over_time": [],
        "peak": None,
        "peak_at": None,
        "peak_allocated": 0,
        "peak_reserved": 0,
    }
    assert ElementTree.fromstring(memory_plot(nothing, "nothing")).tag == f"{SVG}svg"


def command(words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    status = main(["forecast", *words, "--no-progress", "--python", sys.executable])
    return status, capsys.readouterr().out


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    plot = tmp_path / "memory.svg"
    drawn = ["--memory-plot", str(plot), "--output-format", "json"]
    status, out = command([f"{path}::train", "--inputs", "batch=16", "--gpu", "24GiB", *drawn], capsys)
    (entry,) = json.loads(out)["forecasts"]
    assert (status, entry["outcome"], entry["forecast"]["fits"]) == (0, "passed", True)
    assert entry["inputs"] == [{"name": "batch", "value": "16", "source": "flag"}]
    assert entry["forecast"]["lower_bound"] is False
    assert 3 * WEIGHTS < entry["forecast"]["peak_allocated"] < 6 * WEIGHTS
    assert f"{path}::train" in "".join(ElementTree.parse(plot).getroot().itertext())


def test_the_command_in_words_of_what_does_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.py"
    path.write_text(PROGRAM.replace("loss.item()", "net.nothing"))
    dots = tmp_path / "memory.png"
    status, out = command([str(path), "--gpu", "rtx3060", "--memory-plot", str(dots)], capsys)
    assert status == 1
    assert dots.read_bytes().startswith(b"\x89PNG\r\n")
    assert "AttributeError" in out
    assert "at least " in out
    assert "does not fit into the 11.8 GiB of RTX 3060" in out
    assert "line 15  net = Net().to(" in out


def test_a_picture_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "small.py"
    path.write_text("import torch\ntorch.zeros(4096)\n")
    words = ["forecast", str(path), "--python", sys.executable, "--no-progress"]
    assert main([*words, "--memory-plot", str(tmp_path / "no" / "m.svg")]) == 2
    assert "--memory-plot: " in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["forecast", str(path), "--memory-plot", "m.gif"])
    assert "name a file that ends in .svg or .png" in capsys.readouterr().err


def test_a_gpu_that_nobody_knows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    assert main(["forecast", str(path), "--gpu", "rtx9999"]) == 2
    assert "'rtx9999'" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_that_ends_for_want_of_memory_is_told_what_it_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    bounds = ["--gpu-memory", "700MiB", "--verify-time", "1", "--no-progress", "--python", sys.executable]
    words = ["run", f"{path}::train", "--inputs", "batch=16", *bounds]
    assert main([*words, "--experiment-time", "0"]) == 1
    assert "  forecast " not in capsys.readouterr().out
    assert main(words) == 1
    assert re.search(
        r"  forecast +2\.5\d GiB allocated at the peak on line \d+, .* does not fit", capsys.readouterr().out
    )


def test_what_the_allocator_would_keep_of_a_run_is_what_a_forecast_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "train.py"
    path.write_text(PROGRAM.replace("4096", "256").replace("16384", "8192"))
    words = [f"{path}::train", "--inputs", "batch=64", "--no-progress", "--python", sys.executable]
    assert main(["run", *words, "--output-format", "json", "--experiment-time", "0"]) in (0, 1)
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    main(["forecast", *words, "--output-format", "json"])
    (entry,) = json.loads(capsys.readouterr().out)["forecasts"]
    whole = entry["forecast"]
    assert run["forecast"]["peak_allocated"] == whole["peak_allocated"]
    assert run["forecast"]["peak_reserved"] == whole["peak_reserved"]
    assert (run["forecast"]["fits"], run["forecast"]["room"][0]) == (None, "RTX 4070")
