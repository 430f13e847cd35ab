"""The least number of dimensions of what is made: a tensor of the CPU without any may meet tensors of every device."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Sequence

_REDUCES = frozenset(
    "sum mean max min prod norm any all std var median nanmedian logsumexp argmax argmin amax amin count_nonzero "
    "nansum nanmean quantile mode".split()
)
"""Operations that take away a dimension, or all."""
_OF_NONE = frozenset("det trace dot vdot dist logdet slogdet item".split())
_BY_ONE_LESS = frozenset({"select", "unbind", "diagonal", "squeeze", "matmul", "mv", "tensordot", "inner"})
_BY_ONE_MORE = frozenset({"unsqueeze", "stack", "one_hot", "diag_embed"})
_FIXED = {
    "mm": 2, "bmm": 3, "outer": 2, "ger": 2, "nonzero": 2, "bincount": 1, "flatten": 1, "ravel": 1, "meshgrid": 1,
    "arange": 1, "linspace": 1, "logspace": 1, "range": 1, "randperm": 1, "hann_window": 1, "eye": 2, "tril_indices": 2,
    "triu_indices": 2, "cdist": 2, "cartesian_prod": 1, "masked_select": 1,
}  # fmt: skip
_BY_ARGUMENTS = frozenset({"view", "reshape", "expand", "repeat", "tile"})
_LOSS = re.compile(r"(_loss|cross_entropy|kl_div|binary_cross_entropy.*)$")


def of_factory(operation: str, node: ast.Call) -> int:
    """Return the least number of dimensions that a factory gives its tensor."""
    if operation in _FIXED:
        return _FIXED[operation]
    keywords = {k.arg: k.value for k in node.keywords}
    size = keywords.get("size")
    if operation in ("tensor", "as_tensor", "Tensor") and node.args and isinstance(node.args[0], (ast.List, ast.Tuple)):
        return _nesting(node.args[0])
    if operation == "randint":
        size = size or next((a for a in node.args if isinstance(a, (ast.Tuple, ast.List))), None)
    elif operation == "full":
        size = size or (node.args[0] if node.args else None)
    elif size is None:
        return _by_sizes(node.args)
    return _by_sizes([size] if size is not None else [])


def _by_sizes(sizes: Sequence[ast.expr]) -> int:
    if len(sizes) == 1 and isinstance(sizes[0], (ast.Tuple, ast.List)):
        sizes = sizes[0].elts
        return sum(not isinstance(size, ast.Starred) for size in sizes)
    return max(1, sum(not isinstance(size, ast.Starred) for size in sizes))


def _nesting(node: ast.expr) -> int:
    depth = 0
    while isinstance(node, (ast.List, ast.Tuple)):
        depth, node = depth + 1, node.elts[0] if node.elts else ast.Constant(0)
    return depth


def of_result(operation: str, node: ast.Call | None, arguments: Sequence[ast.expr], rank: int) -> int:
    """Return the least number of dimensions of a result; ``arguments`` are those after the tensor itself."""
    if operation in _OF_NONE or _LOSS.search(operation):
        return 0
    if operation in _REDUCES:
        keywords = {k.arg: k.value for k in node.keywords} if node is not None else {}
        if not arguments and not {"dim", "axis"} & keywords.keys():
            return 0
        kept = keywords.get("keepdim", keywords.get("keepdims"))
        return rank if isinstance(kept, ast.Constant) and kept.value is True else rank - 1
    if operation == "squeeze" and not arguments and (node is None or not node.keywords):
        return 0
    if operation in _BY_ONE_LESS:
        return rank - 1
    if operation in _BY_ONE_MORE:
        return rank + 1
    if operation in _BY_ARGUMENTS:
        return _by_sizes(arguments)
    if operation == "einsum":
        return _einsum(node)
    return _FIXED.get(operation, rank)


def _einsum(node: ast.Call | None) -> int:
    match node.args[0] if node is not None and node.args else None:
        case ast.Constant(value=str(equation)) if "->" in equation:
            return sum(letter.isalpha() for letter in equation.split("->")[1])
        case _:
            return 0


def of_index(index: ast.expr, rank: int, is_tensor: Sequence[bool]) -> int:
    """Return the least number of dimensions of ``tensor[index]``; ``is_tensor`` says which parts surely are tensors."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    for part, tensor in zip(parts, is_tensor, strict=True):
        match part:
            case ast.Constant(value=None):
                rank += 1
            case ast.Slice() | ast.Constant(value=builtins.Ellipsis):
                pass
            case ast.Compare():
                rank = min(rank, 1)
            case _ if not tensor:
                rank -= 1
            case _:
                pass
    return max(0, rank)
