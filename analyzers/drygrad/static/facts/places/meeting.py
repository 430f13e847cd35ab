"""Which operations need their operands on one device, and what it means where they are not."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from drygrad.static.facts.operations import FACTORIES
from drygrad.static.facts.places.lattice import Made, Place
from drygrad.static.facts.transfer import KEEPS_DEVICE_APART
from drygrad.static.facts.values import TorchCall

MAKERS = frozenset(
    "zeros ones empty full rand randn randint arange linspace logspace eye randperm tril_indices triu_indices range "
    "hann_window tensor as_tensor from_numpy hamming_window kaiser_window blackman_window".split()
)
"""Factories that make their tensor on the default device unless told another."""
COMPUTING = frozenset("zeros ones empty full rand randn linspace logspace eye".split())
"""Of these, what makes no index and holds no data: with what a function is given, others go on computing."""
FOLLOWERS = frozenset(op for op in FACTORIES if op.endswith("_like") or op.startswith("new_"))
"""Factories that make their tensor where their first operand is."""
LIKE_INPUT = frozenset({"normal", "bernoulli", "multinomial"})
APART = KEEPS_DEVICE_APART | frozenset(
    "fill fill_ pack_padded_sequence sparse_coo_tensor sparse_csr_tensor result_type can_cast is_tensor "
    "broadcast_shapes".split()
)
"""Operations that take tensors of several devices; their result is where the first operand is."""
_TORCH = re.compile(r"torch\.(\w+|nn\.functional\.\w+|linalg\.\w+|special\.\w+|fft\.\w+)$|Tensor\.")
TYPED = re.compile(r"torch\.(\w*Tensor)$")
"""``torch.Tensor``, ``torch.LongTensor`` ... as constructors."""


@dataclass(frozen=True)
class Meet:
    """An operation at ``node`` whose ``operand`` is at ``left``, and ``other`` at ``right``."""

    node: ast.expr
    left: Place
    right: Place
    operand: ast.expr
    other: ast.expr


@dataclass(frozen=True)
class Fault:
    """An ``operand`` of ``node`` that was ``made`` on the default device meets what is where its giver wants it.

    The latter is with one of the ``roots``: parameters, or the module.
    """

    node: ast.expr
    made: Made
    operand: ast.expr
    other: ast.expr
    roots: frozenset[str]


def is_torch(call: TorchCall) -> bool:
    """Say whether a call is one of torch's functions on tensors, or of a tensor's methods."""
    return _TORCH.match(call.target) is not None
