"""Pretrained models of transformers: their architecture with its usual sizes, and random weights."""

from __future__ import annotations

import os
import re
from typing import Any, Callable

from drygrad.worker.run import Run
from drygrad.worker.standing_in.absence import is_absent, library

_WIDE, _WIDE_TO_COMPUTE, _FEW = 2048, 512, 2
"""From which width on a model has few layers: in a forecast, which computes nothing, and in other runs."""
_OF_DOWNLOADS = frozenset(
    "cache_dir force_download resume_download proxies token use_auth_token local_files_only revision trust_remote_code "
    "subfolder _from_pipeline _from_auto _commit_hash gguf_file _configuration_file".split()
)
"""What is asked of the reader of a configuration, and is no part of it."""
_LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "encoder_layers", "decoder_layers")


def change_configurations(module: Any, run: Run) -> None:
    """Let a configuration that is not here be that of its kind of model."""
    kind = getattr(module, "PreTrainedConfig", None) or module.PretrainedConfig
    read: Callable[..., Any] = kind.get_config_dict.__func__

    def get_config_dict(cls: Any, name: Any, **named: Any) -> Any:
        try:
            return read(cls, name, **named)
        except (OSError, ValueError) as error:
            found = model_type(str(name)) if not os.path.exists(name) and is_absent(error) else None
            if found is None:
                raise
        settings, said = _usual(found, _WIDE if run.plan.get("forecast") else _WIDE_TO_COMPUTE)
        run.stands_in(f"`{name}`", said, exact=False)
        return settings, {key: value for key, value in named.items() if key not in _OF_DOWNLOADS}

    kind.get_config_dict = classmethod(get_config_dict)


def change_models(module: Any, run: Run) -> None:
    """Let a model whose weights are not here keep those that it is made with."""
    kind = module.PreTrainedModel
    load: Callable[..., Any] = kind.from_pretrained.__func__

    def from_pretrained(cls: Any, name: Any, *args: Any, **named: Any) -> Any:
        try:
            return load(cls, name, *args, **named)
        except (OSError, ValueError) as error:
            if name is None or os.path.exists(name) or not is_absent(error):
                raise
        run.weights_absent = True
        run.note(f"weights that the program would download are random: {name}")
        config = named.pop("config", None)
        if config is None:
            config, named = cls.config_class.from_pretrained(name, return_unused_kwargs=True, **named)
        dtype = named.get("dtype", named.get("torch_dtype"))
        model = cls._from_config(config, **({} if dtype in (None, "auto") else {"dtype": dtype})).eval()
        return (model, {}) if named.get("output_loading_info") else model

    kind.from_pretrained = classmethod(from_pretrained)


def model_type(name: str) -> str | None:
    """Return the kind of model that a name tells: the longest that it contains."""
    known = library("transformers.models.auto.configuration_auto").CONFIG_MAPPING_NAMES
    said = _letters(name)
    return max((kind for kind in known if _letters(kind) in said), key=len, default=None)


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9.]", "", name.rpartition("/")[2].lower())


def _usual(found: str, wide: int) -> tuple[dict[str, Any], str]:
    """Return the settings of a kind of model, and how they are told: a large one gets few layers."""
    config: Any = library("transformers").AutoConfig.for_model(found)
    settings: dict[str, Any] = {"model_type": found}
    said = f"the usual sizes of {type(config).__name__}"
    if int(getattr(config, "hidden_size", 0) or 0) > wide:
        settings.update({name: _FEW for name in _LAYERS if getattr(config, name, None)})
        said += f" with {_FEW} layers"
    return settings, said
