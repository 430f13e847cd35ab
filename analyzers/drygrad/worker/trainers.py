"""Trainers that loop by themselves: they are told how many batches and epochs there are.

For they do more after the last of either.
"""

from __future__ import annotations

import inspect
from functools import wraps
from typing import Any

from drygrad.worker.late_imports import when_imported
from drygrad.worker.loops import PASSES
from drygrad.worker.run import Run

_TRANSFORMERS = "transformers.trainer"
_MODULES = ("lightning.pytorch.trainer.trainer", "pytorch_lightning.trainer.trainer", _TRANSFORMERS)
_STEPS = ("eval_steps", "save_steps", "logging_steps")
"""After how many steps a trainer of transformers does something: a number, or a share of all of them."""
_LIMITS = ("limit_train_batches", "limit_val_batches", "limit_test_batches", "limit_predict_batches")
_OTHERWISE = ("overfit_batches", "fast_dev_run")


def install(run: Run, limit: int) -> None:
    """Bound the loops of the trainers of Lightning and transformers, now or when these are imported."""
    when_imported(dict.fromkeys(_MODULES, _Bounds(run, limit).bound))


class _Bounds:
    def __init__(self, run: Run, limit: int) -> None:
        self._run = run
        self._limit = limit

    def bound(self, module: Any) -> None:
        """Give each trainer limits where the program gives none, or larger ones."""
        if module.__name__ == _TRANSFORMERS:
            self._bound_training(module.Trainer)
            return
        construct = module.Trainer.__init__

        @wraps(construct)
        def __init__(trainer: Any, *args: Any, **given: Any) -> None:
            if not any(given.get(name) for name in _OTHERWISE):
                given = self._limited(given, inspect.signature(construct).parameters)
            construct(trainer, *args, **given)

        module.Trainer.__init__ = __init__

    def _bound_training(self, kind: Any) -> None:
        """Let a trainer of transformers take a few epochs, and do what it does after some steps after a few."""
        train = kind.train

        @wraps(train)
        def bounded(trainer: Any, *args: Any, **given: Any) -> Any:
            found = {name: getattr(trainer.args, name, None) for name in ("num_train_epochs", "max_steps", *_STEPS)}
            cycle = self._limit * int(getattr(trainer.args, "gradient_accumulation_steps", 1) or 1)
            few = {"num_train_epochs": PASSES, "max_steps": PASSES * cycle, **dict.fromkeys(_STEPS, self._limit)}
            for name, asked in found.items():
                if isinstance(asked, (int, float)) and asked > few[name]:
                    setattr(trainer.args, name, few[name])
            self._run.note(f"the trainer was limited to {PASSES} epochs")
            return train(trainer, *args, **given)

        kind.train = bounded

    def _limited(self, given: dict[str, Any], known: Any) -> dict[str, Any]:
        limit = max(self._limit, int(given.get("accumulate_grad_batches") or 1))
        for name in _LIMITS:
            asked = given.get(name)
            whole = asked is None or (isinstance(asked, float) and asked == 1.0)
            if name in known and (whole or (isinstance(asked, int) and asked > limit)):
                given[name] = limit
        every = given.get("val_check_interval")
        if isinstance(every, int) and every > limit:
            given["val_check_interval"] = limit
        self._run.note(f"the trainer was limited to {limit} batches per loader and {PASSES} epochs")
        return {**given, **_few_epochs(given, known)}


def _few_epochs(given: dict[str, Any], known: Any) -> dict[str, Any]:
    """Return how many epochs a trainer takes that has none, or more: a second one shows what the first has left."""
    found: dict[str, Any] = {}
    asked = given.get("max_epochs", getattr(known.get("max_epochs"), "default", None))
    if "max_epochs" in known and (asked is None or (isinstance(asked, int) and not 0 <= asked <= PASSES)):
        found["max_epochs"] = PASSES
    for name in ("min_epochs", "check_val_every_n_epoch"):
        asked = given.get(name)
        if isinstance(asked, int) and asked > PASSES:
            found[name] = PASSES
    return found
