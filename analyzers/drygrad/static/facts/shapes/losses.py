"""Loss functions: the shape of the loss, and what input and target must have in common."""

from __future__ import annotations

from drygrad.static.facts.shapes.core import Mismatch, Unknown, broadcast, differ, may_equal, shape_text
from drygrad.static.facts.shapes.reading import Handler, Reader, shape_of
from drygrad.static.facts.values import INTEGERS, Constant, Shape, Tensor, TorchCall

PAIRED = {
    "l1_loss": "L1Loss",
    "mse_loss": "MSELoss",
    "smooth_l1_loss": "SmoothL1Loss",
    "huber_loss": "HuberLoss",
    "kl_div": "KLDivLoss",
    "poisson_nll_loss": "PoissonNLLLoss",
    "binary_cross_entropy": "BCELoss",
    "binary_cross_entropy_with_logits": "BCEWithLogitsLoss",
}
"""Losses of an input and a target, element by element."""
CLASSES = {"cross_entropy": "CrossEntropyLoss", "nll_loss": "NLLLoss"}
"""Losses whose target holds a class for each input."""
EQUAL = ("binary_cross_entropy", "binary_cross_entropy_with_logits")
SCALARS = {
    "soft_margin_loss": "SoftMarginLoss",
    "cosine_embedding_loss": "CosineEmbeddingLoss",
    "margin_ranking_loss": "MarginRankingLoss",
    "hinge_embedding_loss": "HingeEmbeddingLoss",
    "triplet_margin_loss": "TripletMarginLoss",
    "multi_margin_loss": "MultiMarginLoss",
    "multilabel_margin_loss": "MultiLabelMarginLoss",
    "multilabel_soft_margin_loss": "MultiLabelSoftMarginLoss",
    "gaussian_nll_loss": "GaussianNLLLoss",
    "ctc_loss": "CTCLoss",
}
"""Losses of which only the reduced form is known here."""
FUNCTIONS = {module: function for table in (PAIRED, CLASSES, SCALARS) for function, module in table.items()}


def is_bare(call: TorchCall) -> bool:
    """Say whether a loss is called as ``torch.kl_div``, not ``F.kl_div``: that form reduces nothing."""
    return call.target.count(".") == 1 and call.target.startswith("torch.")


def reduces(reader: Reader) -> bool:
    """Say whether the loss becomes a scalar."""
    if reader.given("reduce") is not None or reader.given("size_average") is not None:
        raise Unknown
    reduction = reader.given("reduction")
    if reader.call.form == "function" and is_bare(reader.call):
        raise Unknown
    if reduction is not None and not isinstance(reduction, Constant):
        raise Unknown
    return reduction is None or reduction.value != "none"


def _paired(reader: Reader) -> Shape | None:
    if reduces(reader):
        return ()
    return broadcast(reader.shape(), reader.shape(1, "target"))


def _classes(reader: Reader) -> Shape:
    if reduces(reader):
        return ()
    shape = reader.shape()
    if len(shape) < 2 and reader.shape(1, "target") != ():
        raise Unknown
    return (*shape[:1], *shape[2:]) if len(shape) > 1 else ()


def _scalar(reader: Reader) -> Shape:
    if reduces(reader):
        return ()
    raise Unknown


OPERATIONS: dict[str, Handler] = {
    **dict.fromkeys(PAIRED, _paired),
    **dict.fromkeys(CLASSES, _classes),
    **dict.fromkeys(SCALARS, _scalar),
}
MODULES: dict[str, Handler] = {module: OPERATIONS[function] for module, function in FUNCTIONS.items()}


def loss_problem(call: TorchCall) -> Mismatch | None:
    """Return why the shapes of a loss's input and target make torch raise; None where they may not."""
    name = FUNCTIONS.get(call.module.type.rpartition(".")[2], "") if call.module else call.operation
    if name not in PAIRED and name not in CLASSES:
        return None
    reader = Reader(call)
    try:
        target = reader.operand(1, "target")
        shapes = reader.shape(), shape_of(target)
        if name in CLASSES:
            _check_classes(name, *shapes, target.dtype if isinstance(target, Tensor) else None)
        else:
            _check_pair(name, *shapes)
    except Unknown:
        return None
    except Mismatch as problem:
        return problem
    return None


def _check_pair(name: str, shape: Shape, target: Shape) -> None:
    if name not in EQUAL:
        broadcast(shape, target)
    elif not may_equal(shape, target):
        raise Mismatch("loss", f"{name} needs equal shapes, not {shape_text(shape)} and {shape_text(target)}")


def _check_classes(name: str, shape: Shape, target: Shape, dtype: str | None) -> None:
    if name == "cross_entropy" and may_equal(shape, target):
        _check_probabilities(shape, target, dtype)
    elif len(shape) <= 1:
        _check_one_sample(name, shape, target)
    elif not may_equal((shape[0], *shape[2:]), target):
        raise Mismatch(
            "loss",
            f"{name} of an input {shape_text(shape)} expects a target {shape_text((shape[0], *shape[2:]))} "
            f"of class indices, not {shape_text(target)}",
        )


def _check_probabilities(shape: Shape, target: Shape, dtype: str | None) -> None:
    if shape == target and all(isinstance(size, int) for size in shape) and dtype in INTEGERS:
        raise Mismatch(
            "loss", f"a target of the input's shape {shape_text(shape)} holds probabilities, but this one holds {dtype}"
        )


def _check_one_sample(name: str, shape: Shape, target: Shape) -> None:
    if len(target) > 1 or not shape or (1 not in target and any(map(differ, shape, target))):
        raise Mismatch(
            "loss",
            f"{name} of an input {shape_text(shape)} expects one class index, not {shape_text(target)}",
        )
