"""The devices that a run can have: ``cpu``, ``cuda`` (a real GPU) and ``sim`` (a simulated one)."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from drygrad.worker.devices import cuda


def survey(single: bool = False) -> dict[str, Any]:
    """Return what works here, as the worker introduces itself; this process stays as it was.

    ``single`` processes serve one run and need not be able to fork afterwards.
    """
    return {"cuda": cuda.look(apart=not single), "sim": _simulated()}


def _simulated() -> dict[str, Any]:
    sim = simulation()
    why = "the simulated device is not available" if sim is None else sim.probe()
    return {"works": why is None, "why": why or ""}


def simulation() -> Any:
    """Return the package of the simulated device; None where it was left out."""
    name = "drygrad.worker.devices.sim"
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


def prepare(device: str, options: dict[str, Any]) -> str | None:
    """Prepare this process for runs on a device, without any operation; return why that cannot be, if so."""
    if device in ("cpu", "cuda"):
        return None
    if device != "sim":
        return f"there is no device named {device!r}; use cuda, sim or cpu"
    sim = simulation()
    if sim is None:
        return "the simulated device is not available"
    wanted = {"devices": options.get("devices"), "total_memory": options.get("gpu_memory")}
    sim.enable(**{name: value for name, value in wanted.items() if value})
    return None


def enter(plan: dict[str, Any]) -> str | None:
    """Set the device up in the process of a run; return why that cannot be, if so."""
    if plan.get("device") == "cuda":
        return cuda.enter(plan)
    program: dict[str, Any] = plan.get("program") or {}
    if plan.get("device") == "sim" and (plan.get("experiments") or program.get("past")):
        simulation().stay_forkable()
    return None
