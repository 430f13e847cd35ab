"""From a call to the rule that tells its shape."""

from __future__ import annotations

import ast

from drygrad.static.facts.shapes import (
    elementwise,
    factories,
    joins,
    layers,
    losses,
    products,
    reductions,
    sequences,
    spectra,
    views,
)
from drygrad.static.facts.shapes.core import Result, Unknown, broadcast, words
from drygrad.static.facts.shapes.products import matmul
from drygrad.static.facts.shapes.reading import Handler, Reader, operand_shape, plain
from drygrad.static.facts.shapes.told import told_shape
from drygrad.static.facts.values import Shape, Tensor, TorchCall, Value

OPERATIONS: dict[str, Handler] = {
    **elementwise.OPERATIONS,
    **reductions.OPERATIONS,
    **views.OPERATIONS,
    **products.OPERATIONS,
    **joins.OPERATIONS,
    **layers.OPERATIONS,
    **sequences.OPERATIONS,
    **losses.OPERATIONS,
}
ACTIVATIONS = words("""
    ReLU ReLU6 GELU SiLU Mish ELU SELU CELU LeakyReLU PReLU RReLU Sigmoid LogSigmoid Tanh Hardtanh Hardsigmoid
    Hardswish Softplus Softsign Tanhshrink Hardshrink Softshrink Threshold Softmin Softmax2d
    Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout Identity LocalResponseNorm
""")
MODULES: dict[str, Handler] = {
    **dict.fromkeys(ACTIVATIONS, elementwise.keep),
    **dict.fromkeys(("Softmax", "LogSoftmax"), OPERATIONS["softmax"]),
    "CosineSimilarity": OPERATIONS["cosine_similarity"],
    "PairwiseDistance": OPERATIONS["pairwise_distance"],
    "Flatten": OPERATIONS["flatten"],
    "Unflatten": OPERATIONS["unflatten"],
    "PixelShuffle": OPERATIONS["pixel_shuffle"],
    **layers.MODULES,
    **sequences.MODULES,
    **losses.MODULES,
}
PACKAGES: dict[str, dict[str, Handler]] = {
    "torch": {**OPERATIONS, **factories.OPERATIONS},
    "torch.nn.functional": OPERATIONS,
    "torch.special": OPERATIONS,
    "torch.fft": spectra.OPERATIONS,
    "torch.linalg": {**products.LINEAR_ALGEBRA, **reductions.LINEAR_ALGEBRA},
}
METHODS = {**OPERATIONS, **{name: factories.OPERATIONS[name] for name in factories.OPERATIONS if name[:4] == "new_"}}


def handler_of(call: TorchCall) -> Handler | None:
    """Return the rule for a call's shape, None where there is none."""
    package, _, name = call.target.rpartition(".")
    if call.form == "module":
        return MODULES.get(name) if call.module is not None and call.module.cls is None else None
    if package == "torch.nn.init":
        return elementwise.in_place
    if call.form == "function" and package != "torch.Tensor":
        return PACKAGES.get(package, {}).get(name if package == "torch.linalg" else plain(call.operation))
    if call.inplace and call.operation not in views.RESHAPING and call.operation not in elementwise.INTO:
        return elementwise.in_place if call.operation not in UNSIZED else None
    return METHODS.get(plain(call.operation))


UNSIZED = frozenset(("resize", "resize_as", "set", "as_strided", "swap", "addbmm"))
"""In-place methods after which the receiver has another shape."""


def call_shape(call: TorchCall) -> Result:
    """Return the shape of a call's result, Outputs for several, None where it is unknown.

    Raise Mismatch where the shapes that meet make torch raise for certain.
    """
    if _hides_arguments(call):
        return None
    handler = handler_of(call)
    try:
        return handler(Reader(call)) if handler is not None else told_shape(call)
    except Unknown:
        return None


def factory_shape(call: TorchCall) -> Shape | None:
    """Return the shape of a tensor made from sizes or literals: by ``zeros``, ``arange``, ``tensor``, ``..._like``."""
    result = call_shape(call)
    return None if result is None else tuple(result)  # pyright: ignore[reportReturnType]


def _hides_arguments(call: TorchCall) -> bool:
    """Say whether ``*args`` or ``**kwargs`` pass arguments that the call does not show."""
    if call.form == "operator":
        return False
    if any(keyword.arg is None for keyword in call.node.keywords):
        return True
    stars = [index for index, argument in enumerate(call.node.args) if isinstance(argument, ast.Starred)]
    # The values of a star whose items are known stand in its place; at an unknown one the values end.
    given = len(call.values) - (call.form == "method")
    return len(stars) > 1 or (bool(stars) and given <= stars[0])


def operator_shape(operator: str, left: Value, right: Value) -> Shape | None:
    """Return the shape of ``left operator right`` by the operator's name: ``add``, ``matmul``, ``eq``."""
    if not isinstance(left, Tensor) and not isinstance(right, Tensor):
        return None
    try:
        if operator in ("matmul", "imatmul", "rmatmul"):
            return matmul(operand_shape(left), operand_shape(right))
        return broadcast(operand_shape(left), operand_shape(right))
    except Unknown:
        return None


def attribute_shape(shape: Shape | None, name: str) -> Shape | None:
    """Return the shape of an attribute of a tensor that is a tensor itself: ``x.T``, ``x.grad``."""
    if shape is None:
        return None
    if name in ("T", "H"):
        return shape[::-1]
    if name in ("mT", "mH"):
        return views.swapped(shape, -1, -2) if len(shape) > 1 else None
    return shape if name in ("data", "grad", "real", "imag") else None


def size_of(shape: Shape | None, dim: int | None = None) -> Shape | int | str | None:
    """Return what ``x.size()`` tells, or ``x.size(dim)``; a dimension that is not there is a Mismatch."""
    if shape is None or dim is None:
        return shape
    return shape[views.dimension(dim, len(shape))] if shape else views.dimension(dim, 0)
