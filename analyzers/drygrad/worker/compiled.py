"""What ``torch.compile`` makes of a module, without compiling: the module behind ``_orig_mod``, where its state is."""

# pyright: reportIncompatibleVariableOverride=false

from __future__ import annotations

from typing import Any

import torch


class OptimizedModule(torch.nn.Module):
    """Has the attributes of the module that it calls; in its state, their names begin with ``_orig_mod.``."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self._modules["_orig_mod"] = module

    @property
    def training(self) -> bool:
        """The mode of the module."""
        return self._modules["_orig_mod"].training  # type: ignore[union-attr]

    @training.setter
    def training(self, mode: bool) -> None:
        """Keep the module's own mode, whatever the constructor of all modules sets."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module."""
        return self._orig_mod(*args, **kwargs)

    def __len__(self) -> int:
        return len(self._orig_mod)

    def __getattr__(self, name: str) -> Any:
        module = self.__dict__["_modules"]["_orig_mod"]
        return module if name == "_orig_mod" else getattr(module, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if "_modules" in self.__dict__ and "_orig_mod" in self._modules:
            setattr(self._orig_mod, name, value)
        elif name != "training":
            super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)
