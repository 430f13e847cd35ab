"""Where the simulated device is known to differ from what torch's database of operators says of a GPU, and why."""

from __future__ import annotations

SPARSE = "sparse tensors are unsupported"
INDEX_ON_HOST = "the sample's indices must stay on the host, and the harness moves all tensors"
ALIASES = "the samples are views of one buffer, which the harness copies one by one"
NUMBERS = "the case has no tensor, so that no device is asked; a CPU does not refuse it either"
HOST_FORMAT = "the harness compares eight-bit floats bit by bit"

FORWARD = {
    "sparse.sampled_addmm": SPARSE,
    "sparse.mm.reduce": SPARSE,
    "to_sparse": SPARSE,
    "as_strided.partial_views": ALIASES,
    "tensor_split": INDEX_ON_HOST,
}
BACKWARD: dict[str, str] = {}
ERRORS = {
    "clamp_max": (1, NUMBERS),
    "clamp_min": (1, NUMBERS),
    "__rmod__": (1, NUMBERS),
    "__rpow__": (1, NUMBERS),
    "__rsub__": (1, NUMBERS),
    "median": (1, "a limit of 25 dimensions that only CUDA has"),
    "histogramdd": (1, "a GPU has no kernel for it: that is said first"),
    "cat": (3, "an output that overlaps an input in a list is not seen"),
}
"""By operator: how many of its refusals are missed."""

COMPOSED = "torch's tests ask for more than the operator: a GPU takes it too"
DTYPES = {
    "broadcast_shapes": COMPOSED,
    "einsum": COMPOSED,
    "masked.median": COMPOSED,
    "nn.functional.alpha_dropout": COMPOSED,
    "nn.functional.dropout": COMPOSED,
    "nn.functional.dropout2d": COMPOSED,
    "nn.functional.dropout3d": COMPOSED,
    "nn.functional.embedding": COMPOSED,
    "nn.functional.silu.complex": COMPOSED,
    "nn.functional.pdist": "the host's kernel is asked in float32",
    "stft": "the host's Fourier transform is asked in float32",
    "torch._scaled_mm": "the host's kernel takes dtypes that a GPU's does not",
    "torch._scaled_mm_v2": "the host's kernel takes dtypes that a GPU's does not",
}
"""Operators that take float16, bfloat16 or int64 where the database says that a GPU does not."""
