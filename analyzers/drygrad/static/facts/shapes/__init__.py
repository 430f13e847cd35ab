"""What is known of tensors' shapes: the rules by which torch's operations make one from others.

A shape claims nothing that may be false, and a Mismatch is raised only where torch raises, whatever the unknown sizes.
"""

from drygrad.static.facts.shapes.core import Mismatch, Outputs, Result, broadcast, numel, shape_text
from drygrad.static.facts.shapes.indexing import Slice, index_shape, subscript
from drygrad.static.facts.shapes.losses import loss_problem
from drygrad.static.facts.shapes.products import matmul
from drygrad.static.facts.shapes.table import attribute_shape, call_shape, factory_shape, operator_shape, size_of

__all__ = [
    "Mismatch",
    "Outputs",
    "Result",
    "Slice",
    "attribute_shape",
    "broadcast",
    "call_shape",
    "factory_shape",
    "index_shape",
    "loss_problem",
    "matmul",
    "numel",
    "operator_shape",
    "shape_text",
    "size_of",
    "subscript",
]
