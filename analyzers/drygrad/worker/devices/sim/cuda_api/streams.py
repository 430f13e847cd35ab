"""Streams and events: everything runs at once and in order, so there is nothing to wait for."""

from __future__ import annotations

import time
from itertools import count
from typing import Any

import torch

from drygrad.worker.devices.sim.internals import C, always
from drygrad.worker.devices.sim.state import STATE, checked, report_sync

_numbers = count(1)
_current: dict[int, Any] = {}
_cuda: Any = torch.cuda
_Event: Any = torch.Event
_Stream: Any = torch.Stream


class Event(_Event):
    """``torch.cuda.Event``; measures wall-clock time."""

    def __new__(cls, enable_timing: bool = False, **_: Any) -> Any:
        """Make an event that need not know its device yet."""
        made: Any = _Event.__new__(cls, "cuda")
        made.timed, made.recorded = enable_timing, 0.0
        return made

    def record(self, stream: Any = None) -> None:
        """Remember the time."""
        self.recorded = time.perf_counter()

    def wait(self, stream: Any = None) -> None:
        """Nothing is ever pending."""

    def query(self) -> bool:
        """All that was recorded is done."""
        return True

    def synchronize(self) -> None:
        """Tell the hook that the host would wait."""
        report_sync("sync", "torch.cuda.Event.synchronize")

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds between two recorded events."""
        if not (self.timed and end_event.timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if not (self.recorded and end_event.recorded):
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (end_event.recorded - self.recorded) * 1e3


class Stream(_Stream):
    """``torch.cuda.Stream``."""

    def __new__(cls, device: Any = None, priority: int = 0, **known: Any) -> Any:
        """Make a stream of a device, or the one that is named by its numbers."""
        number = known.get("stream_id", next(_numbers))
        index = known.get("device_index", _index(device))
        made: Any = _Stream.__new__(cls, stream_id=number, device_index=index, device_type=1)
        made.priority = priority
        return made

    @property
    def cuda_stream(self) -> int:
        """The handle, a number here."""
        return self.stream_id

    def query(self) -> bool:
        """All that was submitted is done."""
        return True

    def synchronize(self) -> None:
        """Tell the hook that the host would wait."""
        report_sync("sync", "torch.cuda.Stream.synchronize")

    def wait_event(self, event: Any) -> None:
        """Nothing is ever pending."""

    def wait_stream(self, stream: Any) -> None:
        """Nothing is ever pending."""

    def record_event(self, event: Any = None) -> Any:
        """Record an event, a new one if none is given."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Any:
        self.context = _cuda.stream(self)
        self.context.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.context.__exit__(*error)


class ExternalStream(Stream):
    """``torch.cuda.ExternalStream``."""

    def __new__(cls, stream_ptr: int, device: Any = None, **_: Any) -> Any:
        """Make a stream of a handle."""
        return super().__new__(cls, device=device, stream_id=stream_ptr)


def _index(device: Any) -> int:
    if device is None:
        return STATE.current
    if isinstance(device, int):
        return checked(device)
    index: Any = torch.device(device).index
    return STATE.current if index is None else checked(index)


def default_stream(device: Any = None) -> Any:
    """``torch.cuda.default_stream``."""
    return Stream(stream_id=0, device_index=_index(device))


def current_stream(device: Any = None) -> Any:
    """``torch.cuda.current_stream``."""
    index = _index(device)
    found = _current.get(index)
    if found is None:
        found = _current[index] = default_stream(index)
    return found


def number(index: int) -> int:
    """Return the number of a device's current stream: 0 where it is the default one."""
    found = _current.get(index)
    return found.stream_id if found is not None else 0


def set_stream(stream: Any) -> None:
    """``torch.cuda.set_stream``."""
    if stream is not None:
        _current[stream.device_index] = stream


def patch() -> None:
    """Replace the classes and functions wherever torch has them."""
    names: dict[str, Any] = {
        "Stream": Stream,
        "ExternalStream": ExternalStream,
        "Event": Event,
        "current_stream": current_stream,
        "default_stream": default_stream,
        "set_stream": set_stream,
    }
    for kind in (Stream, ExternalStream, Event):
        kind.__module__ = "torch.cuda.streams"
    for name, value in names.items():
        setattr(_cuda, name, value)
        if hasattr(_cuda.streams, name):
            setattr(_cuda.streams, name, value)
    for module in (_cuda, _cuda.graphs):
        module.is_current_stream_capturing = always(False)
    C._cuda_getCurrentRawStream = _raw_stream
    C._accelerator_getStream = current_stream
    C._accelerator_setStream = set_stream


def _raw_stream(index: int) -> int:
    return current_stream(index).stream_id
