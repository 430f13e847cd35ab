"""Forecasts the published programs, and writes ``published.md``: ``python tests/forecast/published/measure.py``."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
PROGRAMS = HERE.parents[1] / "data" / "published" / "programs.py"
MIB, GB = 1 << 20, 10**9
MOST = 0.05
"""What a forecast with the torch of that time may be off by."""
Told = Mapping[str, Any]


class Figure(NamedTuple):
    """What somebody has published of a program, and which part of a forecast stands beside it."""

    program: str
    source: str
    what: str
    published: float
    forecast: Callable[[Told], float]
    then: str = ""
    """The function of ``programs.py`` that runs it with what the torch of that time did differently."""


def allocated(told: Told) -> float:
    return told["peak_allocated"]


def reserved(told: Told) -> float:
    return told["peak_reserved"]


def process(told: Told) -> float:
    """What the driver reports of a process; its context had 1,343 MiB on that machine, as the same page says."""
    return told["peak_reserved"] + 1343 * MIB


def without_inputs(told: Told) -> float:
    return told["peak_allocated"] - 2 * (8192 * 2304 + 256000 * 2304) - 8 * 8192


def kinds(*names: str) -> Callable[[Told], float]:
    return lambda told: sum(told["kinds"].get(name, 0) for name in names)


RASCHKA = "[rasbt/pytorch-memory-optim](https://github.com/rasbt/pytorch-memory-optim), logs.md (torch 2.1)"
TUTORIAL = (
    "[PyTorch tutorial: the optimizer step in backward]"
    "(https://docs.pytorch.org/tutorials/intermediate/optimizer_step_in_backward_tutorial.html)"
)
FACE = "[Hugging Face, training on one GPU](https://huggingface.co/docs/transformers/v4.27.2/en/perf_train_gpu_one)"
APPLE = "[Cut Your Losses, ICLR 2025](https://machinelearning.apple.com/research/cut-your-losses)"
TORCH_1, TORCH_2 = "with_torch_1_10", "with_torch_2_0"
FIGURES = [
    Figure("vit_float32", RASCHKA, "ViT-L/16, batch 64, Adam: reserved", 26.79 * GB, reserved, TORCH_2),
    Figure("vit_mixed", RASCHKA, "the same with float16 autocast: reserved", 18.21 * GB, reserved, TORCH_2),
    Figure("vit_bfloat16", RASCHKA, "the same, all in bfloat16: reserved", 13.82 * GB, reserved, TORCH_2),
    Figure("vit_bfloat16_batch_16", RASCHKA, "the same, batch 16: reserved", 5.69 * GB, reserved, TORCH_2),
    Figure("vit_bfloat16_accumulated", RASCHKA, "the same, 4 times batch 4: reserved", 3.91 * GB, reserved, TORCH_2),
    Figure("vit_bfloat16_accumulated_sgd", RASCHKA, "the same with SGD: reserved", 2.02 * GB, reserved, TORCH_2),
    Figure("vit_weights_float32", RASCHKA, "its weights alone: reserved", 1.24 * GB, reserved),
    Figure("vit_step", TUTORIAL, "ViT-L/16, batch 1, Adam: peak", 6 * GB, allocated),
    Figure("vit_step_in_backward", TUTORIAL, "the same, steps in backward: peak", 4 * GB, allocated),
    Figure(
        "vit_huge_mixed",
        "[torchao, low-bit optimizers](https://github.com/pytorch/ao/tree/main/torchao/optim)",
        "ViT-H/14, batch 8, bfloat16 autocast, AdamW: peak",
        12.94 * GB,
        allocated,
    ),
    Figure("bert_weights", FACE, "BERT-large, weights: reserved", (2631 - 1343) * MIB, reserved),
    Figure("bert_batch_4", FACE, "BERT-large, 512 tokens, batch 4: process", 14949 * MIB, process, TORCH_1),
    Figure("bert_accumulated", FACE, "the same, 4 times batch 1: process", 8681 * MIB, process, TORCH_1),
    Figure("bert_checkpointed", FACE, "the same with checkpoints: process", 6775 * MIB, process, TORCH_1),
    Figure(
        "gpt2_parameters_and_states",
        "[nanoGPT, transformer_sizing.ipynb](https://github.com/karpathy/nanoGPT/blob/master/transformer_sizing.ipynb)",
        "GPT-2 124M, AdamW: parameters and states (its checkpoint also has 50 MB of masks)",
        1542470366,
        kinds("parameters", "states"),
    ),
    Figure(
        "zero_model_states",
        "[ZeRO, figure 1](https://arxiv.org/abs/1910.02054)",
        "7.5 B parameters, mixed precision, Adam: model states, 16 bytes each",
        120 * GB,
        allocated,
    ),
    Figure(
        "megatron_layer",
        "[Korthikanti et al., equation 2](https://arxiv.org/abs/2205.05198)",
        "a layer of the 22 B model, batch 4: activations, sbh(34 + 5as/h)",
        2048 * 4 * 6144 * (34 + 5 * 64 * 2048 / 6144),
        kinds("activations"),
    ),
    Figure("gemma_loss", APPLE, "Gemma 2 2B, 8,192 tokens: the loss", 24000 * MIB, without_inputs),
    Figure("gemma_loss_and_gradient", APPLE, "the same with its gradient", 28000 * MIB, without_inputs),
]


def forecast(program: str, *inputs: str) -> Told:
    """Return the forecast of a function of ``programs.py``."""
    drygrad = Path(sys.executable).with_name("drygrad")
    words = [str(drygrad), "forecast", f"{PROGRAMS}::{program}", *inputs, "--python", sys.executable]
    said = subprocess.run([*words, "--timeout", "300", "--output-format", "json"], capture_output=True, check=True)
    (entry,) = json.loads(said.stdout)["forecasts"]
    return entry["forecast"]


def off(figure: Figure, told: Told) -> float:
    """Return by how much a forecast differs from what was published, in parts of that."""
    return figure.forecast(told) / figure.published - 1


def cells(figure: Figure, told: Told | None) -> tuple[str, str]:
    """Return the cells of one forecast."""
    return (f"{figure.forecast(told) / GB:.2f}", f"{off(figure, told):+.1%}") if told else ("", "")


def main() -> None:
    """Write the table."""
    rows: list[str] = []
    for figure in FIGURES:
        today = forecast(figure.program)
        then = forecast(figure.then, "--inputs", f"program={figure.program}") if figure.then else None
        assert abs(off(figure, then or today)) <= MOST, f"{figure.program} is not explained"
        row = (figure.what, figure.source, f"{figure.published / GB:.2f}", *cells(figure, today), *cells(figure, then))
        rows.append(f"| {' | '.join(row)} |")
        sys.stderr.write(f"{rows[-1]}\n")
    text = (HERE / "published.md").read_text(encoding="utf-8").partition("| what")[0]
    table = ["| what | published by | GB | forecast | | their torch | |", "| --- | --- | --- | --- | --- | --- | --- |"]
    (HERE / "published.md").write_text("\n".join([text.rstrip(), "", *table, *rows, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
