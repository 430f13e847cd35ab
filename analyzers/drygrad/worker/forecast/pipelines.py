"""What the stages of a pipeline tell each other of shapes before their first batch, where other ranks tell nothing.

Gradients have the shapes of what a stage gives to the next one. What comes from a stage on another rank, into a later
stage on this one, is taken to have the shapes of what this rank has given away.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import Any, Callable

from drygrad.worker.late_imports import when_imported

_STAGES = "torch.distributed.pipelining.stage"
_ASSUMED = "stages on other ranks are taken to give what this rank's stages give"


def install(assume: Callable[[str], None]) -> None:
    """Let stages hear from others what this rank knows; ``assume`` hears of what it does not know."""
    when_imported({_STAGES: lambda module: _change(module, assume)})


def _change(module: Any, assume: Callable[[str], None]) -> None:
    stage: Any = getattr(module, "PipelineStage", None)
    if not hasattr(stage, "_recv_meta"):
        return  # older versions only let the first rank tell
    send, receive = stage._send_meta, stage._recv_meta
    given: list[Any] = []

    def _send_meta(self: Any, meta: Any, dst_stage: int) -> None:
        given.append(meta)
        send(self, meta, dst_stage)

    def _recv_meta(self: Any, src_stage: int) -> Any:
        if src_stage > self.stage_index:
            return module._StageBackwardMeta(backward_metas=module._derive_grad_metas(self._stage_meta.outputs))
        for meta in reversed(given):
            if isinstance(meta, module._StageForwardMeta):
                assume(_ASSUMED)
                return meta
        return receive(self, src_stage)

    stage._send_meta, stage._recv_meta = _send_meta, _recv_meta
