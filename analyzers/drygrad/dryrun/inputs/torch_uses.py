"""What a call of torch's, numpy's or Python's own says of its arguments.

The words that it leaves in ``Usage.kinds``: tensor · ids (integers that index something) · classes (targets of a
loss) · alike (has the shape of a result) · unit (probabilities) · mask · number · text · path · array · list.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from drygrad.dryrun.inputs.usage import Usage, Value

_PATTERN_SIDE = re.compile(r"\([^)]*\)|[\w.]+")
_EINOPS = frozenset(("rearrange", "reduce", "repeat"))
_REDUCING = frozenset("softmax log_softmax transpose flatten sum mean size argmax unsqueeze".split())
COUNTING = frozenset("range arange linspace eye randperm zeros ones randn rand empty full randint".split())
"""What is called with sizes."""
_OF_MODULES: dict[str, tuple[str, int]] = {
    "Embedding": ("ids", 0), "EmbeddingBag": ("ids", 0), "Conv1d": ("tensor", 3), "Conv2d": ("tensor", 4),
    "Conv3d": ("tensor", 5), "ConvTranspose1d": ("tensor", 3), "ConvTranspose2d": ("tensor", 4),
    "BatchNorm2d": ("tensor", 4), "MaxPool2d": ("tensor", 4), "AvgPool2d": ("tensor", 4), "LSTM": ("tensor", 3),
    "GRU": ("tensor", 3), "RNN": ("tensor", 3), "MultiheadAttention": ("tensor", 3),
    "TransformerEncoder": ("tensor", 3),
    "Linear": ("tensor", 0), "LayerNorm": ("tensor", 0), "BatchNorm1d": ("tensor", 0),
}  # fmt: skip
"""What a module calls for: a kind, and the rank that a batch has."""
_RECURRENT = frozenset(("LSTM", "GRU", "RNN"))
_OF_IMAGES = frozenset(
    "interpolate grid_sample conv2d max_pool2d avg_pool2d adaptive_avg_pool2d adaptive_max_pool2d conv_transpose2d "
    "pixel_shuffle pixel_unshuffle unfold make_grid".split()
)
"""Functions whose first argument is a batch of images, as a rule."""
_OF_SIZES = frozenset((*_OF_MODULES, "GroupNorm", "TransformerEncoderLayer", "RNNCell", "LSTMCell", "GRUCell"))
_LOSSES: dict[str, str] = {
    "cross_entropy": "classes", "CrossEntropyLoss": "classes", "nll_loss": "classes", "NLLLoss": "classes",
    "mse_loss": "alike", "MSELoss": "alike", "l1_loss": "alike", "L1Loss": "alike", "smooth_l1_loss": "alike",
    "SmoothL1Loss": "alike", "HuberLoss": "alike", "huber_loss": "alike", "binary_cross_entropy": "unit",
    "BCELoss": "unit", "binary_cross_entropy_with_logits": "unit", "BCEWithLogitsLoss": "unit",
}  # fmt: skip
_INDEXED: dict[str, int] = {
    "gather": 1, "index_select": 1, "scatter": 1, "scatter_": 1, "scatter_add": 1, "scatter_add_": 1, "index_add": 1,
    "index_add_": 1, "take_along_dim": 0, "index_copy_": 1, "index_fill_": 1, "take": 0,
}  # fmt: skip
"""The position of the index among the arguments of a tensor's method."""
_OF_ARRAYS = frozenset("from_numpy asarray ascontiguousarray".split())
_OF_FOLDERS = frozenset("join listdir makedirs mkdir scandir walk isdir".split())
_READING = frozenset(
    "open load imread read_csv read_text imread loadtxt listdir exists isfile join abspath makedirs mkdir "
    "scandir walk isdir".split()
)
_NUMBERS = frozenset("int float round abs sqrt ceil floor log exp".split())


def read_call(called: str, node: ast.Call, values: Sequence[Value]) -> None:
    """Note what a call of a function by its full name says of what it is called with."""
    last = called.rpartition(".")[2]
    first = values[0] if values else None
    if called.startswith(("numpy.", "np.")) and isinstance(first, Usage):
        first.kinds.add("path" if last in ("load", "loadtxt") else "array")
    elif last in COUNTING:
        for value in values:
            _add(value, "number")
    elif last in _READING and not isinstance(node.func, ast.Call):
        for value in values[: None if last == "join" else 1]:
            _add(value, "path")
        if last in _OF_FOLDERS and (last != "join" or "path" in called):
            _add(first, "folder")
    elif last in _OF_ARRAYS:
        _add(first, "array")
    elif last in _NUMBERS and "torch" not in called:
        _add(first, "number")
    elif last == "Path":
        _add(first, "path")
    _read_dims(last, node, first)
    _read_loss(last, values)
    if last == "einsum":
        _read_equation(node, values)
    if last in _OF_IMAGES and "nn" in called and isinstance(first, Usage):
        first.ranks.append(4)
    if last in ("embedding", "one_hot"):
        _add(first, "ids")
    if last in _INDEXED:
        _read_indexed(values[1:] if called == f"torch.{last}" else values, _INDEXED[last])


def read_constructor(made: str, values: Sequence[Value]) -> None:
    """Note what the constructor of a class of torch's says of what it is called with."""
    last = made.rpartition(".")[2]
    kind = "number" if last in _OF_SIZES else "tensor" if last == "TensorDataset" else ""
    for value in values if kind else ():
        _add(value, kind)


def read_module(made: str, values: Sequence[Value]) -> None:
    """Note what a module of torch's says of what it is called with."""
    last = made.rpartition(".")[2]
    _read_loss(last, values)
    if last in _RECURRENT and len(values) > 1 and isinstance(values[1], Usage):
        state = values[1]
        state.width = 2 if last == "LSTM" else 0
        for part in [state.element(0), state.element(1)] if state.width else [state]:
            part.ranks.append(3)
    if last in _OF_MODULES and values and isinstance(values[0], Usage):
        kind, rank = _OF_MODULES[last]
        values[0].kinds.add(kind)
        values[0].ranks += [rank] if rank else []


def read_method(name: str, owner: Usage, node: ast.Call, values: Sequence[Value]) -> None:
    """Note what a method says of its object and its arguments."""
    if name == "permute":
        owner.ranks.append(len(node.args))
    if name in _REDUCING:
        owner.reach(node.args)
    if name in _INDEXED:
        _read_indexed(values, _INDEXED[name])
    if name in ("masked_fill", "masked_fill_", "masked_select") and values:
        _add(values[0], "mask")
    if name in ("update", "load_state_dict") and values:
        _add(values[0], "mapping")


def _read_indexed(values: Sequence[Value], position: int) -> None:
    """Note what indexing says of the arguments after the tensor: the index, and behind it what is put there."""
    if len(values) > position:
        _add(values[position], "ids")
    if len(values) > position + 1:
        _add(values[-1], "computed")


def _add(value: Value, kind: str) -> None:
    if isinstance(value, Usage):
        (value.shape_of or value).kinds.add("tensor" if value.shape_of else kind)


def _read_dims(last: str, node: ast.Call, first: Value) -> None:
    if not isinstance(first, Usage):
        return
    if last in _EINOPS and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
        left = str(node.args[1].value).partition("->")[0]
        if "..." not in left:
            first.ranks.append(len(_PATTERN_SIDE.findall(left)))
    if last in _REDUCING:
        first.reach(node.args[1:2])


def _read_loss(last: str, values: Sequence[Value]) -> None:
    if last in ("ctc_loss", "CTCLoss") and values and isinstance(values[0], Usage):
        values[0].ranks.append(3)
    kind = _LOSSES.get(last)
    if kind is not None and len(values) > 1:
        _add(values[1], kind)
        _add(values[0], "tensor")


def _read_equation(node: ast.Call, values: Sequence[Value]) -> None:
    """Read the dimensions of an operand off an equation: ``"bhid,jd->bhij"`` or ``"b h i d, j d -> b h i j"``."""
    texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    operands = [v for a, v in zip(node.args, values, strict=False) if not isinstance(a, ast.Constant)]
    sides = texts[0].partition("->")[0].split(",") if texts else []
    for side, operand in zip(sides, operands, strict=False):
        if isinstance(operand, Usage) and "..." not in side:
            operand.ranks.append(len(side.split()) if " " in side.strip() else len(side.strip()))
