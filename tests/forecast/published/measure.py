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
Told = Mapping[str, Any]


class Figure(NamedTuple):
    """What somebody has published of a program, and which part of a forecast stands beside it."""

    program: str
    source: str
    what: str
    published: float
    forecast: Callable[[Told], float]
    why: str = ""
    """Where it is off by more than a twentieth."""


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
KERNELS = (
    "The excess is 0.24 GB and 7.3 MB for each image (0.36 GB at 16, 0.71 GB at 64), and in float32 at 64 1.31 "
    "GB: about twice as much for each image, so it is as wide as activations. Each of the 24 layers would have "
    "0.30 MB more, three quarters of its output of 197 x 1,024 numbers. What that is was not found: scratch "
    "memory inside kernels of torch 2.1, or what its allocator kept."
)
EPOCH = (
    "The excess is 0.67 GB. One more list of temporaries in Adam's step, as large as the parameters (0.61 GB in "
    "bfloat16), would take 3.66 GB there, and about 3.8 GB with what the allocator keeps (-3%); whether the Adam "
    "of that torch has one was not checked. Theirs is also of an epoch with validation and metrics, ours of a few "
    "steps."
)
MATRIX = (
    "The excess is 164 MiB and 363 MiB for each sample (527 MiB at 1, 1,616 MiB at 4), and with checkpoints it is "
    "gone, so each layer keeps more. One more matrix of attention weights in each of the 24 layers would be 24 x "
    "16 x 512 x 512 x 4 bytes, 384 MiB: likely one that torch 1 and transformers 4.18 kept, which was not "
    "checked."
)
FIGURES = [
    Figure("vit_float32", RASCHKA, "ViT-L/16, batch 64, Adam: reserved", 26.79 * GB, reserved),
    Figure("vit_mixed", RASCHKA, "the same with float16 autocast: reserved", 18.21 * GB, reserved),
    Figure("vit_bfloat16", RASCHKA, "the same, all in bfloat16: reserved", 13.82 * GB, reserved, KERNELS),
    Figure("vit_bfloat16_batch_16", RASCHKA, "the same, batch 16: reserved", 5.69 * GB, reserved, KERNELS),
    Figure("vit_bfloat16_accumulated", RASCHKA, "the same, 4 times batch 4: reserved", 3.91 * GB, reserved, EPOCH),
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
    Figure("bert_batch_4", FACE, "BERT-large, 512 tokens, batch 4: process", 14949 * MIB, process, MATRIX),
    Figure("bert_accumulated", FACE, "the same, 4 times batch 1: process", 8681 * MIB, process, MATRIX),
    Figure("bert_checkpointed", FACE, "the same with checkpoints: process", 6775 * MIB, process),
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


def forecast(program: str) -> Told:
    """Return the forecast of a function of ``programs.py``."""
    drygrad = Path(sys.executable).with_name("drygrad")
    words = [str(drygrad), "forecast", f"{PROGRAMS}::{program}", "--python", sys.executable]
    said = subprocess.run([*words, "--timeout", "300", "--output-format", "json"], capture_output=True, check=True)
    (entry,) = json.loads(said.stdout)["forecasts"]
    return entry["forecast"]


def main() -> None:
    """Write the table."""
    rows: list[str] = []
    notes: list[str] = []
    for figure in FIGURES:
        ours = figure.forecast(forecast(figure.program))
        off = ours / figure.published - 1
        if abs(off) > 0.05:
            assert figure.why, figure.program
            notes += [] if figure.why in notes else [figure.why]
        mark = f" ({notes.index(figure.why) + 1})" if abs(off) > 0.05 else ""
        cells = (figure.what, figure.source, f"{figure.published / GB:.2f}", f"{ours / GB:.2f}", f"{off:+.1%}{mark}")
        rows.append(f"| {' | '.join(cells)} |")
        sys.stderr.write(f"{rows[-1]}\n")
    text = (HERE / "published.md").read_text(encoding="utf-8").partition("| what")[0]
    table = ["| what | published by | GB | forecast | |", "| --- | --- | --- | --- | --- |", *rows, ""]
    explained = [f"{number}. {note}" for number, note in enumerate(notes, 1)]
    (HERE / "published.md").write_text("\n".join([text.rstrip(), "", *table, *explained, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
