"""Process groups with one member, of torch's own backend for such: each collective gives back what was put in.

Where a process is one of several ranks (`ranks`), its groups have members, and collectives their results.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import inspect
import sys
from datetime import timedelta
from functools import wraps
from math import prod
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch._C._distributed_c10d import _create_work_from_future  # type: ignore
from torch.distributed import c10d_logger, device_mesh, distributed_c10d
from torch.futures import Future

from drygrad.worker.run import Run

if TYPE_CHECKING:
    from drygrad.worker.ranks.group import Groups

_OF_OTHER_BACKENDS = ("device_id", "backend_options", "pg_options")
_FAKE = "fake"
_RANKS = "drygrad-ranks"
_torch: Any = distributed_c10d
_LATER = "all_reduce broadcast reduce all_gather all_gather_into_tensor reduce_scatter reduce_scatter_tensor".split()
"""Functions whose work is asked for its future by those who compress gradients."""


def install(run: Run) -> None:
    """Let ``init_process_group`` make such a group, whatever backend and size it is asked for."""
    _log_nothing()
    _stay_alone(run)
    _make_groups(run)
    _begin_alone(run)
    _keep_promises(run)
    if run.device == "sim":
        _replace("is_nccl_available", lambda: True)
        _have_nccl()
    _replace("monitored_barrier", _silent)


def _begin_alone(run: Run) -> None:
    begin: Any = dist.init_process_group
    store: Any = getattr(dist, "HashStore")  # noqa: B009 - as below

    def init_process_group(backend: Any = None, *_: Any, **named: Any) -> None:
        if dist.is_initialized():
            return
        _ask_for(run, named.get("world_size"))
        run.result["distributed"] = True
        if run.ranks is not None:
            name, rank, size = _RANKS, run.ranks.seat.rank, run.ranks.seat.world
        else:
            size = max(run.world, named.get("world_size") or 1) if run.plan.get("forecast") else 1
            run.world = size
            if size == 1:
                run.note("the process group has one member; collectives return their input")
            name, rank = _FAKE, 0
            _register()
        begin(name, store=store(), rank=rank, world_size=size, timeout=timedelta(seconds=30))
        _name(dist.group.WORLD, backend)

    def _get_default_group() -> Any:
        if not dist.is_initialized() and run.plan.get("target") is not None:
            run.note("the code expects a process group that the program creates elsewhere; the run created one")
            if run.ranks is not None:
                run.ranks.asked_for = False
            init_process_group("nccl" if run.device in ("sim", "cuda") else "gloo")
        return default()

    default: Any = _torch._get_default_group

    def init_device_mesh(device_type: Any, mesh_shape: Any, **named: Any) -> Any:
        _ask_for(run, prod(mesh_shape))
        if run.plan.get("forecast") and not dist.is_initialized():
            run.world = max(run.world, prod(mesh_shape))
        if run.ranks is not None and device_type == "cuda" and torch.cuda.device_count() and not _is_in_use():
            torch.cuda.set_device(run.ranks.seat.rank % torch.cuda.device_count())
        return mesh(device_type, mesh_shape, **named)

    mesh: Any = device_mesh.init_device_mesh
    _replace("init_device_mesh", init_device_mesh, device_mesh)
    _replace("init_process_group", init_process_group)
    _replace("_get_default_group", _get_default_group)


def take_seat(run: Run, groups: Groups) -> None:
    """Let this process be a rank from now on, which has begun no group yet."""
    run.ranks = groups
    _replace("monitored_barrier", lambda group=None, *_, **__: dist.barrier(group))  # pyright: ignore


def _make_groups(run: Run) -> None:
    make: Any = _torch._new_process_group_helper

    def _new_process_group_helper(size: Any, rank: Any, ranks: Any, backend: Any, *rest: Any, **named: Any) -> Any:
        named.update({name: None for name in _OF_OTHER_BACKENDS if name in named})
        if run.ranks is not None:
            run.ranks.members = [*ranks] or [*range(run.ranks.seat.world)]
        name = _FAKE if run.ranks is None else _RANKS
        group, store = make(size, rank, ranks, dist.Backend(name), *rest, **named)
        _name(group, backend)
        return group, store

    _torch._new_process_group_helper = _new_process_group_helper


def _register() -> None:
    from torch.testing._internal.distributed import fake_pg  # pyright: ignore[reportUnusedImport]  # noqa: F401


def _name(group: Any, backend: Any) -> None:
    """Let a group say that it has the backend that it was asked for."""
    groups: Any = _torch._world.pg_map
    if group in groups:
        name = backend if isinstance(backend, str) else "undefined"
        groups[group] = (dist.Backend(name), groups[group][1])


def _keep_promises(run: Run) -> None:
    """Let futures hold what was asked for: those of the fake backend hold nothing."""

    def later(function: Any) -> Any:
        first = next(iter(inspect.signature(function).parameters))

        @wraps(function)
        def collective(*args: Any, **kwargs: Any) -> Any:
            if function(*args, **kwargs) is None:
                return None
            output: Any = args[0] if args else kwargs[first]
            return _done(output if isinstance(output, list) else [output])

        return collective

    def bucketing(function: Any) -> Any:
        @wraps(function)
        def making(*args: Any, **kwargs: Any) -> Any:
            run.bucketing = True
            try:
                return function(*args, **kwargs)
            finally:
                run.bucketing = False

        return making

    for name in _LATER:
        _replace(name, later(getattr(distributed_c10d, name)))

    reducer: Any = getattr(dist, "Reducer")  # noqa: B009 - as below
    promising = ReducersGroup()

    @bucketing
    def Reducer(parameters: Any, buckets: Any, sizes: Any, group: Any, *rest: Any, **named: Any) -> Any:
        return reducer(parameters, buckets, sizes, promising if run.ranks is None else group, *rest, **named)

    reducer._rebuild_buckets = bucketing(reducer._rebuild_buckets)
    dist.Reducer = Reducer  # type: ignore[attr-defined]


class ReducersGroup(dist.ProcessGroup):
    """The group that ``DistributedDataParallel`` reduces gradients in, whose futures must hold them."""

    def __init__(self) -> None:
        super().__init__(0, 1)  # pyright: ignore[reportCallIssue]

    def _same(self, tensors: Any, *_: Any, **__: Any) -> Any:
        return _done(tensors)

    allreduce = allreduce_coalesced = broadcast = _same  # pyright: ignore[reportAssignmentType]


def _done(result: Any) -> Any:
    kind: Any = Future
    future = kind()
    future.set_result(result)
    return cast("Any", _create_work_from_future)(future)


def _is_in_use() -> bool:
    """Say whether the program has chosen a GPU or put something on one: torch then chooses none for a mesh."""
    return torch.cuda.current_device() != 0 or torch.cuda.memory_allocated() > 0


def _ask_for(run: Run, ranks: Any) -> None:
    """Take note of how many ranks a program itself asks for."""
    if isinstance(ranks, int) and ranks > 1:
        run.result["ranks"] = ranks


def _stay_alone(run: Run) -> None:
    def spawn(fn: Any, args: Any = (), nprocs: Any = 1, *_: Any, **__: Any) -> None:
        _ask_for(run, nprocs)
        run.result["spawns"] = True
        if run.ranks is None:
            run.note("no process was started; the function ran as the first one")
        fn(0 if run.ranks is None else run.ranks.seat.rank, *args)

    torch.multiprocessing.spawn = spawn  # type: ignore[assignment]


def _replace(name: str, function: Any, owner: Any = distributed_c10d) -> None:
    """Give a function of torch's another meaning wherever its name was imported to."""
    original = getattr(owner, name)
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get(name) is original:
            setattr(module, name, function)


def _have_nccl() -> None:
    """Let ``torch.cuda.nccl.version()`` name a version."""
    native: Any = torch._C
    if not hasattr(native, "_nccl_version"):
        native._nccl_version = lambda: (2 << 32) | (27 << 16) | 3
        native._nccl_version_suffix = lambda: b""


def _silent(*_: Any, **__: Any) -> None:
    pass


class _Silent:
    """Stands for what ``DistributedDataParallel`` logs with: torch's own fails on devices that it has no timer for."""

    def __init__(self, *_: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return _silent


def _log_nothing() -> None:
    reducer: Any = getattr(dist, "Reducer")  # noqa: B009 - it is not among the names that torch exports
    dist.Logger = _Silent  # type: ignore[attr-defined]
    reducer.set_logger = _silent
    logger: Any = c10d_logger
    logger._get_msg_dict = _nothing  # what is logged of an error asks NCCL for its version


def _nothing(*_: Any, **__: Any) -> dict[str, Any]:
    return {}
