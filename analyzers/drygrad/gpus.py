"""GPUs that a forecast can be made for: the memory they have, how fast they can be at best, and what they are called.

Memory is what torch reports (the total capacity in its messages), which is less than the name says: the driver keeps
some, and error correction may take a sixteenth. Rates are of dense arithmetic, from the makers' data sheets and papers;
where a card is slower at 16-bit products that it adds in 32 bits (GeForce), that rate, for torch adds so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

_GIB = 1 << 30


@dataclass(frozen=True)
class Gpu:
    """One kind of GPU. Without rates it is a size only."""

    name: str
    memory: int
    """Bytes that torch sees."""
    arch: str = ""
    """``sm_90``; for AMD ``gfx942``."""
    multiprocessors: int = 0
    bandwidth: float = 0.0
    """Bytes a second between the chip and its memory."""
    rates: dict[str, float] = field(default_factory=lambda: {})
    """Operations a second at best, by dtype of the factors; ``tf32`` is float32 rounded for the tensor cores."""

    def as_wire(self) -> dict[str, Any]:
        """Return it as the worker takes it."""
        return {**vars(self), "rates": dict(self.rates)}


def _gpu(name: str, gib: float, arch: str, chip: int, bandwidth: float, tera: str) -> Gpu:
    rates = {dtype: float(rate) * 1e12 for dtype, rate in (each.split("=") for each in tera.split())}
    if "float16" in rates and not arch.endswith(("70", "75")):
        rates.setdefault("bfloat16", rates["float16"])
    return Gpu(name, int(gib * _GIB) // 512 * 512, arch, chip, bandwidth * 1e9, rates)


GPUS: tuple[Gpu, ...] = (
    # NVIDIA Tesla T4 data sheet; 14.56 GiB: Zheng-Chong/CatVTON#133 (error correction on; 14.75 without).
    _gpu("T4", 14.56, "sm_75", 40, 320, "float32=8.1 float16=65"),
    # NVIDIA V100 data sheet (SXM2); 31.74 GiB: liucongg/ChatGLM-Finetuning#73.
    _gpu("V100-16GB", 15.77, "sm_70", 80, 900, "float64=7.8 float32=15.7 float16=125"),
    _gpu("V100-32GB", 31.74, "sm_70", 80, 900, "float64=7.8 float32=15.7 float16=125"),
    # NVIDIA Ampere GA102 paper, and for GA106 the same per core and clock; 11.76 GiB: TencentARC/PhotoMaker#47.
    _gpu("RTX 3060", 11.76, "sm_86", 28, 360, "float32=12.7 tf32=12.7 float16=25.5"),
    _gpu("RTX 3090", 23.69, "sm_86", 82, 936, "float32=35.6 tf32=35.6 float16=71"),
    _gpu("RTX A6000", 47.5, "sm_86", 84, 768, "float32=38.7 tf32=77.4 float16=154.8"),
    # NVIDIA Ada paper, appendices; 23.64 GiB: ali-vilab/VGen#104.
    _gpu("RTX 4060 Ti 16GB", 15.7, "sm_89", 34, 288, "float32=22.1 tf32=22.1 float16=44.1 float8=88.2"),
    _gpu("RTX 4070", 11.72, "sm_89", 46, 504, "float32=29.1 tf32=29.1 float16=58.3 float8=116.6"),
    _gpu("RTX 4080", 15.7, "sm_89", 76, 716.8, "float32=48.7 tf32=48.7 float16=97.5 float8=194.9"),
    _gpu("RTX 4090", 23.64, "sm_89", 128, 1008, "float32=82.6 tf32=82.6 float16=165.2 float8=330.3"),
    # NVIDIA RTX Blackwell paper.
    _gpu("RTX 5090", 31.36, "sm_120", 170, 1792, "float32=104.8 tf32=104.8 float16=209.5 float8=419"),
    # NVIDIA A10 and A10G data sheets; 22 GiB: huggingface/local-gemma#25.
    _gpu("A10", 22.06, "sm_86", 72, 600, "float32=31.2 tf32=62.5 float16=125"),
    _gpu("A10G", 22.06, "sm_86", 80, 600, "float32=35 tf32=35 float16=70"),
    # NVIDIA L4 and L40S data sheets, halved where they count sparse factors; 44.42 GiB: stepfun-ai/Step-Video-T2V#8.
    _gpu("L4", 22.03, "sm_89", 58, 300, "float32=30.3 tf32=60 float16=121 float8=242.5"),
    _gpu("L40S", 44.42, "sm_89", 142, 864, "float32=91.6 tf32=183 float16=362 float8=733"),
    # NVIDIA A100 data sheet; 39.50 GiB: TianheWu/CoSeR#10, 79.14 GiB: lianqi1008/Control-GIC#6.
    _gpu("A100-40GB", 39.5, "sm_80", 108, 1555, "float64=19.5 float32=19.5 tf32=156 float16=312"),
    _gpu("A100-80GB", 79.14, "sm_80", 108, 2039, "float64=19.5 float32=19.5 tf32=156 float16=312"),
    _gpu("A100-80GB-PCIe", 79.14, "sm_80", 108, 1935, "float64=19.5 float32=19.5 tf32=156 float16=312"),
    # NVIDIA H100 and H200 data sheets, halved where they count sparse factors.
    _gpu("H100-80GB", 79.11, "sm_90", 132, 3350, "float64=67 float32=67 tf32=494.7 float16=989.4 float8=1978.9"),
    _gpu("H100-80GB-PCIe", 79.11, "sm_90", 114, 2000, "float64=51 float32=51 tf32=378 float16=756 float8=1513"),
    _gpu("H200", 139.81, "sm_90", 132, 4800, "float64=67 float32=67 tf32=494.7 float16=989.4 float8=1978.9"),
    # NVIDIA B200 data sheet; memory and bandwidth as the driver tells: pytorch/ao#4002.
    _gpu("B200", 178.35, "sm_100", 148, 7672, "float64=37 float32=75 tf32=1125 float16=2250 float8=4500"),
    # AMD Instinct MI300X data sheet; workspaces and context of ROCm are not modelled.
    _gpu("MI300X", 191.98, "gfx942", 304, 5300, "float64=163.4 float32=163.4 tf32=653.7 float16=1307.4 float8=2614.9"),
)

_SIZE = re.compile(r"(?i)(\d+(?:\.\d+)?)\s*(?:([kmgt])(i?)b?|b)?")
_MOST_BYTES = 1 << 60
_NOISE = re.compile(r"nvidia|geforce|tesla|amd|instinct|quadro|gpu|rtx|sxm\d?|hbm\d?e?")
_WORD = re.compile(r"(?:nvidia|geforce|rtx)(?=\d)|\d+(?=ti)|[a-z0-9]+")


def byte_size(text: str) -> int:
    """Return how many bytes ``24GiB``, ``500 MB`` or ``1000`` are; ``ValueError`` where it is no size."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or float(match[1]) == 0:
        raise ValueError(f"expected a size such as 24GiB, got {text!r}")
    power = "kmgt".index(match[2].lower()) + 1 if match[2] else 0
    size = float(match[1]) * (1024 if match[3] else 1000) ** power
    if size >= _MOST_BYTES:
        raise ValueError("no machine has that much memory")
    return int(size)


class UnknownGpu(ValueError):
    """A name that no GPU here has; ``near`` are names that could be meant."""

    def __init__(self, name: str) -> None:
        plain = {"".join(_words(gpu.name)): gpu.name for gpu in GPUS}
        given = "".join(_words(name))
        self.near = [plain[each] for each in get_close_matches(given, plain, 4, 0.5)]
        hint = (
            f"did you mean {' or '.join(self.near)}?"
            if self.near
            else f"known are {', '.join(gpu.name for gpu in GPUS)};"
        )
        super().__init__(f"unknown GPU {name!r}; {hint} A size such as 24GiB works too")


def gpu_named(text: str) -> Gpu:
    """Return the GPU of a name, however it is spelled (``h100``, ``rtx4090``), or one of a size such as ``24GiB``.

    Where several share a name, the largest is meant, and of these the fastest.
    """
    given = _words(text)
    found = [gpu for gpu in GPUS if given and given[0] == _words(gpu.name)[0] and _may_be(gpu, given[1:])]
    if found:
        exact = [gpu for gpu in found if given == _words(gpu.name)]
        return max(exact or found, key=lambda gpu: (gpu.memory, gpu.bandwidth))
    if _SIZE.fullmatch(text.strip()):
        return Gpu(text.strip(), byte_size(text))
    raise UnknownGpu(text)


def _may_be(gpu: Gpu, words: list[str]) -> bool:
    """Return whether what follows a GPU's number belongs to its name, or is the size that its maker gives."""
    more, gib = {*words} - {*_words(gpu.name)}, gpu.memory / _GIB
    return all(word.isdigit() and gib <= int(word) <= 1.15 * gib for word in more)


def _words(name: str) -> list[str]:
    """Return the words of a name that tell GPUs apart; ``80GB`` is ``80``."""
    found = [re.sub(r"(?<=\d)gi?b$", "", word) for word in _WORD.findall(name.lower())]
    return [word for word in found if word and not _NOISE.fullmatch(word)]
