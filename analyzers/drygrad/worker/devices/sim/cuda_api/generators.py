"""Random generators of a device. The host's default generator serves the devices too, so one seed seeds all."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any
from weakref import WeakValueDictionary

import torch

from drygrad.worker.devices.sim.internals import C
from drygrad.worker.devices.sim.state import STATE, checked
from drygrad.worker.reading import quietly

Base: Any = C.Generator
_Kind: Any = Base.__class__
_default: Any = torch.default_generator
_MOST_STATES = 4096
_of_device: WeakValueDictionary[int, Any] = WeakValueDictionary()


class _AnyGenerator(_Kind):
    """Takes every generator of torch for an instance, those that torch makes itself too."""

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, Base)


class Generator(Base, metaclass=_AnyGenerator):  # pyright: ignore[reportUntypedBaseClass]
    """``torch.Generator``: a host generator that says the device it was made for."""

    def __new__(cls, device: Any = "cpu") -> Any:
        """Make a generator of the host for a device."""
        wanted: Any = torch.device(device)
        if wanted.type not in {"cpu", "cuda"}:
            return Base(device)
        made = Base.__new__(cls, "cpu")
        made.owner = wanted
        if wanted.type == "cuda":
            made.owner = torch.device("cuda", checked(-1 if wanted.index is None else wanted.index))
            _of_device[made._cdata] = made
        return made

    def __init__(self, device: Any = "cpu") -> None:
        """Take the argument, as ``__new__`` does."""

    @property
    def device(self) -> torch.device:
        """The device that it draws for."""
        return self.owner

    def __reduce__(self) -> Any:
        """Pickle device and state."""
        return _restored, (str(self.owner), self.get_state())


def _restored(device: str, state: torch.Tensor) -> Any:
    made = Generator(device)
    made.set_state(state)
    return made


def check_generator(generator: Any) -> None:
    """Raise as torch does where an operator on a device is given a generator of the host."""
    # A kernel meets another Python object for the same generator: the address tells.
    if generator._cdata not in _of_device and generator._cdata != _default._cdata:
        raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")


class _States:
    """States of a device's generator as CUDA writes them, sixteen bytes of seed and offset, for those of the host's.

    An offset counts the states that were asked for; one that a program has computed itself begins numbers of its own.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, int], torch.Tensor] = OrderedDict()
        self._asked = 0

    def get(self, device: Any = "cuda") -> torch.Tensor:
        """Return the state as it is now."""
        with quietly():
            now = _default.get_state()
            last = next(reversed(self._kept), None)
            if last is None or not torch.equal(self._kept[last], now):
                self._asked += 1
                last = (_default.initial_seed() % (1 << 63), 4 * self._asked)
                self._kept[last] = now
                if len(self._kept) > _MOST_STATES:
                    self._kept.popitem(last=False)
            return torch.tensor(last, dtype=torch.int64, device="cpu").view(torch.uint8)

    def set(self, new_state: torch.Tensor, device: Any = "cuda") -> None:
        """Go on from a state."""
        with quietly():
            numbers = new_state.clone().view(torch.int64) if new_state.numel() == 16 else [0, 0]
            seed, offset = (int(number) for number in numbers)
            kept = self._kept.get((seed, offset))
            if kept is not None:
                _default.set_state(kept)
            else:
                _default.manual_seed((seed * 1_000_003 + offset) % (1 << 63))


def patch() -> None:
    """Replace ``torch.Generator`` and give ``torch.cuda`` its default generators."""
    module: Any = torch
    Generator.__name__ = Generator.__qualname__ = "Generator"
    Generator.__module__ = "torch._C"
    module.Generator = Generator
    states = _States()
    for owner in (module.cuda, module.cuda.random):
        owner.get_rng_state, owner.set_rng_state = states.get, states.set
    module.cuda.default_generators = (torch.default_generator,) * STATE.devices
