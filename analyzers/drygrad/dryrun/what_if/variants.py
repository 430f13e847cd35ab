"""What could be different about a program, by what its trace has shown of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from drygrad.dryrun.inputs.arguments import Argument
from drygrad.dryrun.merge import Record
from drygrad.dryrun.plan import Plan, RunOptions
from drygrad.dryrun.trial import Trial, compared
from drygrad.dryrun.what_if.rewrites import Rewriter
from drygrad.dryrun.what_if.sizes import BATCH, SEQUENCE, Size, batch_of, sizes, with_batch
from drygrad.gpus import Gpu
from drygrad.model import Edit, Fix

SAME, ROUNDED, OTHER = "same", "rounded", "other"
"""What becomes of results: the same up to the order of sums, the same in fewer digits, those of another training."""
_ADAPTIVE = ("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Lion", "Adagrad", "RMSprop", "Adadelta", "Adafactor")
_WITHOUT_BFLOAT16 = ("sm_70", "sm_75")
_FNUZ = "gfx94"
"""AMD's first GPUs with float8 have a variant of it that knows neither infinity nor a negative zero."""
_ELSEWHERE = ("states-in-shards", "shards", "shards-once", "save-on-cpu", "states-on-cpu")
"""What needs other GPUs, or the time of copies to the host, is not put together with the rest."""
_BLOCKS, _RANKS, _RANK = 2, 8, 8
_FEW_LAYERS = 4
_COMPARED = 30.0
"""Seconds that a run may take by which results are compared."""
COMPARED = ("sdpa", "chunked-loss", "save-on-cpu", "autocast")
"""Changes whose text is offered only after it has computed the same."""
_FLOAT8 = "float8: casts are fused into one kernel each, as by torch.compile; copies of weights are not cached"
EXPANDABLE = "expandable segments of the allocator"
_NAMES = {
    "checkpoint": "checkpointing",
    "no-grad": "`no_grad`",
    "set-to-none": "`set_to_none`",
    "fused": "fused optimizer",
    "one-by-one": "no `foreach`",
    "sdpa": "`scaled_dot_product_attention`",
    "chunked-loss": "loss in chunks",
    "expandable": "expandable segments",
}


@dataclass(frozen=True)
class Variant:
    """A program with something different: the words that the worker is told, or another text."""

    title: str
    results: str
    plan: Plan
    words: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    """What changes in the text, where that is known."""
    share: float = 1.0
    """How much of the data it computes with in each pass, in parts of what the program as it is does."""
    passes: int = 1
    """How many backward passes it takes for as much data as one of the program as it is."""
    assumes: str | None = None
    """What its numbers take for granted."""
    otherwise: Variant | None = None
    """The same change made by the worker: what counts where the text computes something else."""

    @property
    def elsewhere(self) -> bool:
        """Whether parts of it are on other ranks or on the host."""
        words = self.otherwise.words if self.otherwise is not None else self.words
        return any(word.partition(":")[0] in _ELSEWHERE for word in words)


def variants(record: Record, seen: Mapping[str, Any]) -> Iterator[Variant]:
    """Yield what is worth tracing."""
    found = [*_kept(seen), *_optimizers(seen), *_precision(seen, _gpu(record.plan)), *_others(seen)]
    found += [(EXPANDABLE, SAME, "expandable"), *_elsewhere(seen)]
    rewriter = Rewriter(record.plan.source)
    for title, results, word in found:
        by_words = with_words(record, title, results, word)
        by_text = written(record, title, results, rewriter.of(word))
        if by_text is not None and word.partition(":")[0] in COMPARED:
            by_text = replace(by_text, otherwise=by_words)
        yield by_text or by_words
    yield from _eight_bits(record, seen)
    together = _together([word for _, results, word in found if results == SAME])
    if len(together) > 1:
        named = ", ".join(_NAMES[word.partition(":")[0]] for word in together)
        yield with_words(record, f"together: {named}", SAME, *together)
    batch = batch_size(record)
    if batch is not None and batch.value > 1:
        yield from _halves(record, batch, rewriter)
    for size in sizes(record.plan.source, SEQUENCE)[:1]:
        yield from _smaller(record, size)


def written(record: Record, title: str, results: str, edits: tuple[Edit, ...]) -> Variant | None:
    """Return the same run of the text with these edits; None where there are none, or it cannot be run as before."""
    trial = Trial.of(record.plan, record.result, Fix(title, edits)) if edits else None
    return Variant(title, results, trial.plan, edits=edits) if trial is not None else None


def kept(record: Record, seen: Mapping[str, Any]) -> Iterator[Variant]:
    """Yield what keeps results equal and is known as a text, then all of it together."""
    rewriter, found = Rewriter(record.plan.source), [*_kept(seen), *_optimizers(seen)]
    texts = [(title, edits) for title, results, word in found if results == SAME and (edits := rewriter.of(word))]
    texts.append((EXPANDABLE, rewriter.of("expandable")))
    first = {title.partition(" of ")[0]: (title, edits) for title, edits in reversed(texts)}
    together = tuple(dict.fromkeys(edit for title, edits in first.values() for edit in edits if "foreach" not in title))
    for title, edits in [*texts, ("Everything that keeps results equal", together)]:
        variant = written(record, title, SAME, edits)
        if variant is not None:
            yield variant


def small(record: Record, edits: tuple[Edit, ...], samples: int) -> Plan | None:
    """Return the plan of a run that really computes, of the text with these edits, for so many samples at once."""
    asked = replace(record.plan.options, forecast=None, experiments=None, timeout=_COMPARED)
    within = replace(record, plan=_with_options(record.plan, asked))
    batch = batch_size(record)
    if batch is not None and batch.size is not None:
        edits = (*edits, *batch.size.edits(record.plan.source, samples))
    trial = Trial.of(within.plan, record.result, Fix("", edits)) if edits else None
    plan = trial.plan if trial is not None else None if edits else compared(within.plan, record.result)
    if plan is None or batch is None or batch.size is not None:
        return plan
    return replace(plan, arguments=tuple(_given(argument, samples) for argument in plan.arguments))


def _with_options(plan: Plan, options: RunOptions) -> Plan:
    within = _with_options(plan.within, options) if plan.within is not None else None
    return replace(plan, options=options, within=within)


def with_words(record: Record, title: str, results: str, *words: str) -> Variant:
    """Return the same run with changes that the worker makes."""
    return Variant(title, results, _changed(_again(record), words), words)


def _together(words: list[str]) -> list[str]:
    """Return what goes together: the largest block is computed again, one form of the optimizer is taken."""
    kinds: dict[str, str] = {}
    for word in words:
        kind = "optimizer" if word in ("fused", "one-by-one") else word.partition(":")[0]
        if kind not in _ELSEWHERE:
            kinds.setdefault(kind, word)
    return list(kinds.values())


def _kept(seen: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for block in seen["blocks"][:_BLOCKS]:
        name: str = block["name"]
        title = f"gradient checkpointing of the {block['count']} `{name.rpartition('.')[2]}`"
        yield title, SAME, f"checkpoint:{name}"
    if "evaluates" in seen["flags"]:
        yield "`no_grad` in evaluation", SAME, "no-grad"
    if "zeros" in seen["flags"]:
        yield "`zero_grad(set_to_none=True)`", SAME, "set-to-none"


def _optimizers(seen: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    optimizers: list[Mapping[str, Any]] = seen["optimizers"]
    names = " and ".join(sorted({optimizer["name"] for optimizer in optimizers}))
    if any(optimizer["fusible"] for optimizer in optimizers):
        yield f"fused {names}", SAME, "fused"
    if any(optimizer["foreach"] for optimizer in optimizers):
        yield f"{names} without `foreach`", SAME, "one-by-one"
    if any(optimizer["name"] in _ADAPTIVE for optimizer in optimizers):
        yield f"{names} with 8-bit states", ROUNDED, "8-bit"
        yield "plain SGD", OTHER, "sgd"
        yield f"optimizer states sharded over {_RANKS} ranks (ZeRO-1)", SAME, f"states-in-shards:{_RANKS}"


def _elsewhere(seen: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield what is kept on the host, or on other ranks."""
    optimizers: list[Mapping[str, Any]] = seen["optimizers"]
    if not optimizers:
        return
    names = " and ".join(sorted({optimizer["name"] for optimizer in optimizers}))
    over = f"sharded over {_RANKS} ranks (`fully_shard`"
    yield f"everything {over}, ZeRO-3)", SAME, f"shards:{_RANKS}"
    yield f"gradients and states {over} with `reshard_after_forward=False`)", SAME, f"shards-once:{_RANKS}"
    yield "activations on the host (`save_on_cpu`)", SAME, "save-on-cpu"
    if any(optimizer["name"] in _ADAPTIVE for optimizer in optimizers):
        yield f"{names} on the host, with the states", SAME, "states-on-cpu"


def _precision(seen: Mapping[str, Any], gpu: Gpu | None) -> Iterator[tuple[str, str, str]]:
    if {"autocast", "half"} & {*seen["flags"]}:
        return
    lacks = gpu is not None and gpu.arch in _WITHOUT_BFLOAT16
    word, name = ("fp16", "float16") if lacks else ("bf16", "bfloat16")
    yield f"autocast to {name}", ROUNDED, f"autocast:{word}"
    if seen["optimizers"]:
        yield f"everything in {name}", ROUNDED, f"half:{word}"


def _eight_bits(record: Record, seen: Mapping[str, Any]) -> Iterator[Variant]:
    """Yield linear layers in float8, where the GPU has units for it."""
    gpu = _gpu(record.plan)
    if gpu is None or "float8" not in gpu.rates or seen["linear"] < _FEW_LAYERS:
        return
    form = "fnuz" if gpu.arch.startswith(_FNUZ) else "fn"
    title = "linear layers in float8, weights and activations kept as they are (`torch._scaled_mm`)"
    yield replace(with_words(record, title, ROUNDED, f"float8:{form}"), assumes=_FLOAT8)


def _others(seen: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    if "images" in seen["flags"]:
        yield "channels last", ROUNDED, "channels-last"
    if seen["linear"] >= _FEW_LAYERS:
        yield "`scaled_dot_product_attention` instead of hand-written attention", SAME, "sdpa"
    if "words" in seen["flags"]:
        yield "the loss over the vocabulary in chunks", SAME, "chunked-loss"
    if seen["linear"] >= _FEW_LAYERS and seen["optimizers"]:
        yield f"LoRA of rank {_RANK}", OTHER, f"lora:{_RANK}"


@dataclass(frozen=True)
class BatchSize:
    """How many samples a batch has, and how a run with another number is planned."""

    record: Record
    value: int
    size: Size | None
    """Where it stands in the text; None where inputs are given that say it."""

    @property
    def where(self) -> str:
        """Say which number it is."""
        if self.size is None:
            return "the inputs"
        return f"`{self.size.name}` on line {self.size.line}" if self.size.name else f"line {self.size.line}"

    def plan(self, value: int) -> tuple[Plan, tuple[Edit, ...]] | None:
        """Return the plan with so many samples, and what changes in the text."""
        if self.size is not None:
            return _resized(self.record, self.size, value)
        plan = _again(self.record)
        given = tuple(_given(argument, value) for argument in plan.arguments)
        return replace(plan, arguments=given), ()


def batch_size(record: Record) -> BatchSize | None:
    """Return what decides the size of a batch: the inputs that the target is given, else a number of the text."""
    plan = _again(record)
    if plan.within is None and plan.arguments:
        value = batch_of(plan.arguments)
        if value is not None:
            return BatchSize(record, value, None)
    found = sizes(record.plan.source, BATCH)
    return BatchSize(record, found[0].value, found[0]) if found else None


def _given(argument: Argument, value: int) -> Argument:
    return replace(argument, text=with_batch(argument, value), line=None, column=None)


def _halves(record: Record, batch: BatchSize, rewriter: Rewriter) -> Iterator[Variant]:
    half = batch.value // 2
    planned = batch.plan(half)
    if planned is None:
        return
    plan, edits = planned
    yield Variant(f"batches of {half} instead of {batch.value} ({batch.where})", OTHER, plan, edits=edits, share=0.5)
    words = ("accumulate",)
    title = f"batches of {half}, gradients accumulated over 2 ({batch.where})"
    by_words = Variant(title, SAME, _changed(plan, words), words, share=0.5)
    by_text = written(record, f"batches of {half}, gradients accumulated over 2", SAME, rewriter.of("accumulate"))
    yield replace(by_text, passes=2, otherwise=by_words) if by_text is not None else by_words


def _smaller(record: Record, size: Size) -> Iterator[Variant]:
    planned = _resized(record, size, size.value // 2)
    if planned is not None and size.value > 1:
        plan, edits = planned
        named = f"`{size.name}` on line {size.line}"
        yield Variant(
            f"sequences of {size.value // 2} instead of {size.value} ({named})", OTHER, plan, edits=edits, share=0.5
        )


def _resized(record: Record, size: Size, value: int) -> tuple[Plan, tuple[Edit, ...]] | None:
    edits = size.edits(record.plan.source, value)
    trial = Trial.of(record.plan, record.result, Fix("", edits))
    return (trial.plan, edits) if trial is not None else None


def _again(record: Record) -> Plan:
    """Return the plan of the same run, with the inputs that it has had."""
    return compared(record.plan, record.result)


def _changed(plan: Plan, words: tuple[str, ...]) -> Plan:
    asked = plan.options.forecast
    assert asked is not None
    options = replace(plan.options, forecast=replace(asked, changes=words))
    within = _changed(plan.within, words) if plan.within is not None else None
    return replace(plan, options=options, within=within)


def _gpu(plan: Plan) -> Gpu | None:
    return plan.options.forecast.gpu if plan.options.forecast is not None else None
