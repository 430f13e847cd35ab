# source: https://github.com/asyml/texar-pytorch/issues/72
# target: MergeLayer.__init__
# truth: the merged layers are kept in a plain python list, so they are not submodules: their weights are missing from
#   parameters() (never trained), from state_dict() and from .to(device)
from typing import Any, Dict, List, Optional, Union

import torch
from torch import Tensor, nn


def get_layer(spec: Union[nn.Module, Dict[str, Any]]) -> nn.Module:
    """Build a layer from ``{"type": name, "kwargs": {...}}`` or pass a module through."""
    if isinstance(spec, nn.Module):
        return spec
    kind = spec["type"]
    if kind == "MergeLayer":
        return MergeLayer(**spec.get("kwargs", {}))
    if kind == "Squeeze":
        return SqueezeLayer(**spec.get("kwargs", {}))
    return getattr(nn, kind)(**spec.get("kwargs", {}))


class SqueezeLayer(nn.Module):
    def __init__(self, dim: int = -1):
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        return x.squeeze(self.dim)


class MergeLayer(nn.Module):
    """Applies several layers to the same input and merges the results."""

    _functions = {
        "sum": lambda xs, dim: torch.stack(xs).sum(0),
        "mean": lambda xs, dim: torch.stack(xs).mean(0),
        "concat": lambda xs, dim: torch.cat(xs, dim=dim),
    }

    def __init__(self, layers: Optional[List[Any]] = None, mode: str = "concat", dim: int = 1):
        super().__init__()
        if mode not in self._functions:
            raise ValueError(f"unknown merge mode {mode!r}")
        self._mode = mode
        self._dim = dim
        self._layers = None
        if layers is not None:
            if len(layers) == 0:
                raise ValueError("'layers' must be either None or a non-empty list.")
            self._layers = []  # culprit
            for layer in layers:
                self._layers.append(get_layer(layer))

    def forward(self, x: Union[Tensor, List[Tensor]]) -> Tensor:
        if self._layers is None:
            outputs = list(x)
        else:
            outputs = [layer(x) for layer in self._layers]
        return self._functions[self._mode](outputs, self._dim)


class Conv1DEncoder(nn.Module):
    """Parallel convolutions of several widths with max pooling, as in sentence classification."""

    def __init__(self, in_channels: int, filters: int = 32, kernel_sizes=(3, 4, 5), dropout: float = 0.3):
        super().__init__()
        branches = []
        for width in kernel_sizes:
            branches.append(
                nn.Sequential(
                    get_layer({"type": "Conv1d", "kwargs": dict(in_channels=in_channels, out_channels=filters, kernel_size=width)}),
                    nn.ReLU(),
                    nn.AdaptiveMaxPool1d(1),
                    SqueezeLayer(-1),
                )
            )
        self.conv = get_layer({"type": "MergeLayer", "kwargs": {"layers": branches, "mode": "concat", "dim": 1}})
        self.dropout = nn.Dropout(dropout)
        self.output_size = filters * len(kernel_sizes)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.conv(x.transpose(1, 2)))


class Conv1DClassifier(nn.Module):
    def __init__(self, vocab_size: int, dim: int = 48, num_classes: int = 2, **encoder_args: Any):
        super().__init__()
        self.embedder = nn.Embedding(vocab_size, dim, padding_idx=0)
        self.encoder = Conv1DEncoder(dim, **encoder_args)
        self.logit_layer = nn.Linear(self.encoder.output_size, num_classes)

    def forward(self, ids: Tensor) -> Tensor:
        return self.logit_layer(self.encoder(self.embedder(ids)))
