"""Weights that a program downloads: a dry run has no network, so the model keeps those that it was made with."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Callable

import torch
import torch.hub

from drygrad.worker.run import Run


class WeightsNotDownloaded(OrderedDict[str, Any]):
    """What stands for a state that was not downloaded: it is empty, whatever part of it is asked for."""

    def __missing__(self, key: str) -> WeightsNotDownloaded:
        return WeightsNotDownloaded()


def install(run: Run) -> None:
    """Let downloads by ``torch.hub`` seem to succeed, and what they would have given change nothing."""
    absent: set[str] = set()
    load: Callable[..., Any] = torch.load
    into: Callable[..., Any] = torch.nn.Module.load_state_dict

    def download_url_to_file(url: str, dst: str, *_: Any, **__: Any) -> None:
        absent.add(os.path.abspath(dst))
        run.weights_absent = True
        run.note(f"weights that the program would download are random: {url}")

    def load_or_not(f: Any, *rest: Any, **named: Any) -> Any:
        if isinstance(f, (str, os.PathLike)) and os.path.abspath(f) in absent:
            return WeightsNotDownloaded()
        return load(f, *rest, **named)

    def load_state_dict(self: Any, state_dict: Mapping[str, Any], *rest: Any, **named: Any) -> Any:
        if not absent:
            return into(self, state_dict, *rest, **named)
        there = {key: value for key, value in state_dict.items() if isinstance(value, torch.Tensor)}
        into(self, there, strict=False)  # what was to come from elsewhere is missing
        return torch.nn.modules.module._IncompatibleKeys([], [])  # pyright: ignore[reportPrivateUsage]

    torch.hub.download_url_to_file = download_url_to_file  # type: ignore[assignment]
    torch.load = load_or_not  # type: ignore[assignment]
    torch.nn.Module.load_state_dict = load_state_dict  # type: ignore[method-assign]
