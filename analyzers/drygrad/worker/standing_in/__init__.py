"""What stands in for data and pretrained parts that are not on this machine, and that a dry run does not download.

A stand-in has the shapes, types and number of classes of what it stands for, and values that mean nothing. The notes
name each, and what a run says of values rests on them (``Run.stood_in``).
"""

from __future__ import annotations

from drygrad.worker.late_imports import when_imported
from drygrad.worker.run import Run
from drygrad.worker.standing_in import image_sets, metrics, models, tables, tokenizers


def install(run: Run) -> None:
    """Let the libraries that load such things go on where these are absent."""
    when_imported(
        {
            "torchvision.datasets": lambda module: image_sets.change(module, run),
            "datasets": lambda module: tables.change(module, run),
            "evaluate": lambda module: metrics.change(module, run),
            "transformers.configuration_utils": lambda module: models.change_configurations(module, run),
            "transformers.modeling_utils": lambda module: models.change_models(module, run),
            "transformers.models.auto.tokenization_auto": lambda module: tokenizers.change_auto(module, run),
            "transformers.tokenization_utils_base": lambda module: tokenizers.change_base(module, run),
        }
    )
