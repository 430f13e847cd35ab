"""A process group with one member: each collective gives back what was put in."""

# torch types these methods by overloads that no group of torch's own follows.
# pyright: reportIncompatibleMethodOverride=false, reportAssignmentType=false, reportPrivateUsage=false, reportUnknownVariableType=false

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _create_work_from_future  # type: ignore
from torch.futures import Future

from drygrad.worker.run import Run

_NAME = "drygrad"


def _done(result: Any) -> Any:
    kind: Any = Future
    future = kind()
    future.set_result(result)
    create: Any = _create_work_from_future
    return create(future)


class LonelyGroup(dist.ProcessGroup):
    """The collectives of a group of one."""

    def __init__(self) -> None:
        super().__init__(0, 1)  # pyright: ignore[reportCallIssue]

    def getBackendName(self) -> str:
        """Return the name that ``get_backend`` shows."""
        return _NAME

    def _same(self, tensors: Any, *_: Any, **__: Any) -> Any:
        return _done(tensors)

    def _copied(self, outputs: Any, inputs: Any, *_: Any, **__: Any) -> Any:
        for output, given in zip(_flat(outputs), _flat(inputs)):
            if output is not given:
                output.copy_(given.reshape(output.shape))
        return _done(outputs)

    def _copied_back(self, output: torch.Tensor, given: torch.Tensor, *_: Any, **__: Any) -> Any:
        return self._copied([output], [given])

    def barrier(self, *_: Any, **__: Any) -> Any:
        """Wait for nobody."""
        return _done(None)

    allreduce = allreduce_coalesced = broadcast = reduce = _same
    allgather = gather = scatter = reduce_scatter = alltoall = _copied
    allgather_into_tensor_coalesced = reduce_scatter_tensor_coalesced = _copied
    _allgather_base = _reduce_scatter_base = alltoall_base = _copied_back
    all_gather_single = _copied_back


def _flat(tensors: Any) -> list[torch.Tensor]:
    if isinstance(tensors, torch.Tensor):
        return [tensors]
    return [tensor for item in tensors for tensor in _flat(item)]


def _make(*_: Any) -> LonelyGroup:
    return LonelyGroup()


def _silent(*_: Any, **__: Any) -> None:
    pass


class _Silent:
    """Stands for what ``DistributedDataParallel`` logs with: torch's own fails on devices that it has no timer for."""

    def __init__(self, *_: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return _silent


def _log_nothing() -> None:
    reducer: Any = getattr(dist, "Reducer")  # noqa: B009 - as below
    dist.Logger = _Silent  # type: ignore[attr-defined]
    reducer.set_logger = _silent


def install(run: Run) -> None:
    """Let ``init_process_group`` make such a group, whatever backend and size it is asked for."""
    begin: Any = dist.init_process_group
    backends: Any = dist.Backend
    backends.register_backend(_NAME, _make, devices=["cpu", "cuda"])
    store: Any = getattr(dist, "HashStore")  # noqa: B009 - it is not among the names that torch exports
    _log_nothing()

    def init_process_group(*args: Any, **kwargs: Any) -> None:
        if not dist.is_initialized():
            run.note("the process group has one member: collectives give back what they are given")
            begin(_NAME, store=store(), rank=0, world_size=1, timeout=timedelta(seconds=30))

    dist.init_process_group = init_process_group  # type: ignore[assignment]
