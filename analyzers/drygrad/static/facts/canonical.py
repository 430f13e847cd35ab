"""One name for each thing, whatever path it was imported by."""

from __future__ import annotations

import re

_NN_MODULE_FILE = re.compile(r"^torch\.nn\.modules\.\w+\.([A-Z]\w*)$")
_OPTIM_FILE = re.compile(r"^torch\.optim\.[a-z_]+\.([A-Z]\w*)$")
_EXACT = {
    "torch.autograd.no_grad": "torch.no_grad",
    "torch.autograd.grad_mode.no_grad": "torch.no_grad",
    "torch.autograd.inference_mode": "torch.inference_mode",
    "torch.autograd.enable_grad": "torch.enable_grad",
    "torch.autograd.grad_mode.enable_grad": "torch.enable_grad",
    "torch.autograd.set_grad_enabled": "torch.set_grad_enabled",
    "torch.nn.parameter.Parameter": "torch.nn.Parameter",
    "torch.nn.parameter.Buffer": "torch.nn.Buffer",
    "torch.nn.modules.Module": "torch.nn.Module",
    "torch.nn.parallel.distributed.DistributedDataParallel": "torch.nn.parallel.DistributedDataParallel",
    "torch.utils.data.dataloader.DataLoader": "torch.utils.data.DataLoader",
    "torch.utils.data.dataset.Dataset": "torch.utils.data.Dataset",
    "torch.utils.data.dataset.TensorDataset": "torch.utils.data.TensorDataset",
    "torch.cuda.amp.grad_scaler.GradScaler": "torch.cuda.amp.GradScaler",
    "torch.amp.grad_scaler.GradScaler": "torch.amp.GradScaler",
    "torch.amp.autocast": "torch.autocast",
    "torch.amp.autocast_mode.autocast": "torch.autocast",
    "torch.cuda.OutOfMemoryError": "torch.OutOfMemoryError",
    "torch.nn.utils.clip_grad.clip_grad_norm_": "torch.nn.utils.clip_grad_norm_",
}


def canonical(name: str) -> str:
    """Return the public name of something in torch; any other name unchanged."""
    if not name.startswith("torch."):
        return name
    if name in _EXACT:
        return _EXACT[name]
    if match := _NN_MODULE_FILE.match(name):
        return f"torch.nn.{match[1]}"
    if match := _OPTIM_FILE.match(name):
        return f"torch.optim.{match[1]}"
    return name
