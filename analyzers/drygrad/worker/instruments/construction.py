"""Where modules and loaders are made: the lines that call their constructors."""

from __future__ import annotations

import inspect
import weakref
from types import FrameType
from typing import Any, ClassVar, NamedTuple

import torch
import torch.utils.data
from torch.nn.modules import module as hooks

from drygrad.worker.lines import Instruction
from drygrad.worker.listening import Heard, Listening
from drygrad.worker.naming import locals_of
from drygrad.worker.run import Instrument, Run


class Given(NamedTuple):
    """What a constructor was called with."""

    positional: tuple[Any, ...]
    named: dict[str, Any]


class Construction(Instrument):
    """Remembers the user's line in which a module got its first parameter or buffer, and the one that called for it.

    For experiments, which may make another such module, it keeps what the constructors of the user's were called with.
    """

    name: ClassVar[str] = "construction"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._made: weakref.WeakKeyDictionary[torch.nn.Module, Instruction] = weakref.WeakKeyDictionary()
        self._built: weakref.WeakKeyDictionary[torch.nn.Module, Instruction] = weakref.WeakKeyDictionary()
        self._given: weakref.WeakKeyDictionary[torch.nn.Module, Given] = weakref.WeakKeyDictionary()
        self._loaders: weakref.WeakKeyDictionary[Any, Instruction] = weakref.WeakKeyDictionary()
        self._handles: list[Any] = []
        self._listening = Listening(run)
        run.made_at = self._made.get
        run.loader_at = self._loader_of
        run.built_at = self._built.get
        run.built_with = self._given.get

    def start(self) -> None:
        """Listen to registrations, and to the constructor of loaders."""
        self._listening.after(torch.utils.data.DataLoader, "__init__", self._loader_made)
        if self.run.plan.get("experiments"):
            self._listening.after(torch.nn.Module, "__init__", self._begun)
        self._handles = [
            hooks.register_module_parameter_registration_hook(self._registered),
            hooks.register_module_buffer_registration_hook(self._registered),
            hooks.register_module_module_registration_hook(self._composed),
        ]

    def _begun(self, heard: Heard) -> None:
        module: torch.nn.Module = heard.args[0]
        code = getattr(type(module).__init__, "__code__", None)
        if code is None or not self.run.lines.is_user(code):
            return
        frame, outermost = self.run.lines.frame(2), None
        while frame is not None:
            outermost = frame if _constructs(frame, module) else outermost
            frame = frame.f_back
        given = _given_to(outermost) if outermost is not None and outermost.f_code is code else None
        if given is not None:
            self._given[module] = given

    def _registered(self, module: torch.nn.Module, name: str, value: Any) -> None:
        here = self.run.lines.here() if module not in self._made else None
        if here is not None:
            self._made[module] = here
        self._composed(module, name, value)

    def _composed(self, module: torch.nn.Module, name: str, value: Any) -> None:
        if module in self._built:
            return
        frame = self.run.lines.frame(2)
        while frame is not None and (not self.run.lines.is_user(frame.f_code) or _constructs(frame, module)):
            frame = frame.f_back
        if frame is not None:
            self._built[module] = Instruction(frame.f_code, frame.f_lasti)

    def _loader_made(self, heard: Heard) -> None:
        here = self.run.lines.here()
        if here is not None:
            self._loaders[heard.args[0]] = here

    def _loader_of(self, dataset: Any) -> Instruction | None:
        made = (line for loader, line in self._loaders.items() if loader.dataset is dataset)
        return next(made, None)

    def finish(self) -> None:
        """Listen no more."""
        self._listening.end()
        for handle in self._handles:
            handle.remove()


def _constructs(frame: FrameType, module: torch.nn.Module) -> bool:
    """Say whether a frame is the module's own constructor, or that of a class that it derives from."""
    code = frame.f_code
    if code.co_name != "__init__" or not code.co_argcount:
        return False
    return locals_of(frame).get(code.co_varnames[0]) is module


def _given_to(frame: FrameType) -> Given | None:
    """Return what a constructor was called with; None where a name of its own has been taken from it since."""
    code, values = frame.f_code, locals_of(frame)
    count, named = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    many = bool(code.co_flags & inspect.CO_VARARGS)
    extra = named + many if code.co_flags & inspect.CO_VARKEYWORDS else None
    names = code.co_varnames
    try:
        positional = [values[name] for name in names[1:count]]
        rest: Any = values[names[named]] if many else ()
        options: Any = values[names[extra]] if extra is not None else {}
        return Given((*positional, *rest), {**{name: values[name] for name in names[count:named]}, **options})
    except KeyError:
        return None
