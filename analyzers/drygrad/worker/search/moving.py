"""Moves inputs that were found on the CPU to the GPU, real or simulated, where faults of devices show."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from drygrad.worker.search.nodes import FLOATS, Node, Path, text_of
from drygrad.worker.search.trial import Failure, Trials

ASSUMPTION = "the module and its inputs are on the GPU"


def moved(proposal: Node, trials: Trials) -> tuple[Node, Failure | None]:
    """Return the inputs on the GPU where the code runs with them there, else as they are.

    With a failure: the code makes a tensor of its own on the CPU, wherever the module and its inputs are.
    """
    if not torch.cuda.is_available() or trials.on_gpu or "cuda" in text_of(proposal):
        return proposal, None
    if any(node.kind == "loader" for _, node in proposal.nodes()):
        return proposal, None
    own: tuple[Node, Failure] | None = None
    sure = True
    for variant in _variants(proposal):
        failure = trials.attempt(variant)
        if failure is None:
            return variant, None
        if own is None and makes_its_own(failure):
            own = variant, failure
        sure = sure and (_mixes(failure) or "CPU" in str(failure.error))
    receiver = proposal.part(proposal.text)
    if own is not None and sure and receiver is not None and receiver.is_module:
        return own
    return proposal, None


def own_failure(proposal: Node, trials: Trials) -> tuple[Node, Failure] | None:
    """Return the inputs on the GPU with the failure there, where code that goes to the GPU by itself mixes devices.

    None where other inputs could be on the device that the code wants, or where the code stays on the CPU.
    """
    if trials.attempt(on_cpu(proposal)) is None or not trials.on_gpu:
        return None
    found: tuple[Node, Failure] | None = None
    for variant in _variants(proposal):
        failure = trials.attempt(variant)
        if failure is None or not makes_its_own(failure) or _could_be_told(variant, failure):
            return None
        found = found or (variant, failure)
    return found


def on_cpu(proposal: Node) -> Node:
    """Return inputs as they are before they are moved."""
    for path, node in [*proposal.nodes()]:
        if node.device:
            proposal = proposal.replaced(path, replace(proposal.at(path), device=""))
    return proposal


def _could_be_told(proposal: Node, failure: Failure) -> bool:
    """Say whether an object was made without the device that its constructor would take."""
    for value, path in failure.built:
        node = proposal.at(path)
        if node.kind == "call" and node.part("device") is None and _takes_device(value):
            return True
    return False


def _takes_device(value: Any) -> bool:
    try:
        return "device" in inspect.signature(value.__class__).parameters
    except (TypeError, ValueError):
        return False


def _variants(proposal: Node) -> Iterator[Node]:
    """Yield the proposal with everything on the GPU, then with what is counted or chosen left where it was."""
    modules = [path for path, node in proposal.nodes() if node.is_module and not proposal.stays(path)]
    tensors = [p for p, leaf in proposal.leaves() if leaf.kind == "tensor" and not proposal.stays(p)]
    floats = [path for path in tensors if proposal.at(path).dtype in FLOATS]
    if modules or tensors:
        yield _placed(proposal, [*modules, *tensors])
    if floats != tensors and (modules or floats):
        yield _placed(proposal, [*modules, *floats])


def _placed(proposal: Node, paths: list[Path]) -> Node:
    for path in paths:
        proposal = proposal.replaced(path, replace(proposal.at(path), device="cuda"))
    return proposal


def _mixes(failure: Failure) -> bool:
    """Say whether a call mixed devices."""
    tensors = failure.call.tensors() if failure.call is not None and failure.building is None else []
    return {t.device.type for t in tensors if t.dim() > 0 or t.is_cuda} == {"cpu", "cuda"} or _draws_elsewhere(failure)


def _draws_elsewhere(failure: Failure) -> bool:
    """Say whether a call draws on the GPU with a generator of the CPU's that is none of the inputs."""
    generator = failure.call.keywords.get("generator") if failure.call is not None else None
    if not isinstance(generator, torch.Generator) or failure.path_of(generator) is not None:
        return False
    return generator.device.type == "cpu" and "generator" in str(failure.error)


def makes_its_own(failure: Failure) -> bool:
    """Say whether a call mixed devices, and what is on the CPU came from none of the inputs."""
    call = failure.call
    if call is None or not _mixes(failure):
        return False
    strays = [tensor for tensor in call.tensors() if tensor.device.type == "cpu"]
    return not any(call.origins(stray) or isinstance(stray, torch.nn.Parameter) for stray in strays)
