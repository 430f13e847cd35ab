"""Variables that keep loggers and hubs from the network, from services, and from folders of the user."""

from __future__ import annotations

from pathlib import Path

_SWITCHES = {
    "WANDB_MODE": "disabled",  # "offline" starts a service, which a run may not
    "WANDB_SILENT": "true",
    "COMET_START_ONLINE": "0",
    "NEPTUNE_MODE": "debug",
    "CLEARML_OFFLINE_MODE": "1",
    "SWANLAB_MODE": "disabled",
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HYDRA_FULL_ERROR": "1",  # else it ends the program where the error of the program's own should be
    "DO_NOT_TRACK": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}
_FOLDERS = {
    "TMPDIR": "",
    "TEMP": "",
    "TMP": "",
    "WANDB_DIR": "wandb",
    "MLFLOW_TRACKING_URI": "mlruns",
    "COMET_OFFLINE_DIRECTORY": "comet",
    "TORCHINDUCTOR_CACHE_DIR": "torchinductor",
    "TRITON_CACHE_DIR": "triton",
}
NAMES = frozenset((*_SWITCHES, *_FOLDERS))
"""The variables that a program's own surroundings do not change."""


def variables(private: str) -> dict[str, str]:
    """The environment of a dry run. Caches that are read (weights, data sets, fonts) stay where they are."""
    folders = {name: str(Path(private, folder)) for name, folder in _FOLDERS.items()}
    folders["MLFLOW_TRACKING_URI"] = Path(folders["MLFLOW_TRACKING_URI"]).as_uri()
    return {**_SWITCHES, **folders}
