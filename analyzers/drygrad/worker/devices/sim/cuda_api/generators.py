"""Random generators of a device. The host's default generator serves the devices too, so one seed seeds all."""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

import torch

from drygrad.worker.devices.sim.internals import C
from drygrad.worker.devices.sim.state import STATE, checked

Base: Any = C.Generator
_Kind: Any = Base.__class__
_default: Any = torch.default_generator
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


def patch() -> None:
    """Replace ``torch.Generator`` and give ``torch.cuda`` its default generators."""
    module: Any = torch
    Generator.__name__ = Generator.__qualname__ = "Generator"
    Generator.__module__ = "torch._C"
    module.Generator = Generator
    module.cuda.default_generators = (torch.default_generator,) * STATE.devices
