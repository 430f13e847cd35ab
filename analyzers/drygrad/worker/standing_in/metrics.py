"""Metrics that are downloaded: what stands in for one takes predictions, and knows no score."""

from __future__ import annotations

from collections import defaultdict
from functools import wraps
from typing import Any, Callable

from drygrad.worker.run import Run
from drygrad.worker.standing_in.absence import is_absent


class AbsentMetric:
    """Takes what a metric takes; each of its scores is 0."""

    def __init__(self, name: str) -> None:
        self.name = name

    def add(self, **_: Any) -> None:
        """Take one prediction."""

    def add_batch(self, **_: Any) -> None:
        """Take the predictions of a batch."""

    def compute(self, **_: Any) -> defaultdict[str, float]:
        """Return scores that mean nothing, whatever they are called."""
        return defaultdict(float, {self.name: 0.0})


def change(module: Any, run: Run) -> None:
    """Let ``evaluate.load`` go on without the program that it would download."""
    load: Callable[..., Any] = module.load

    @wraps(load)
    def load_or_not(path: Any, *rest: Any, **named: Any) -> Any:
        try:
            return load(path, *rest, **named)
        except (OSError, RuntimeError, ValueError) as error:
            if not is_absent(error):
                raise
        run.stands_in(f"the metric `{path}`", "scores of 0", exact=True)
        return AbsentMetric(str(path))

    module.load = load_or_not
