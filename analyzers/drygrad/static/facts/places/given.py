"""What of a body tells that something is a tensor, and that a parameter is none."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.static.facts.operations import TENSOR_METHODS
from drygrad.static.tree import remembered, walk

ABOUT = frozenset(
    "shape size dim ndim ndimension dtype numel nelement is_cuda item tolist stride is_contiguous element_size "
    "is_floating_point data_ptr storage_offset get_device requires_grad names layout is_sparse is_leaf grad_fn".split()
)
"""What tells of a tensor without being one."""
SAME = frozenset({"T", "mT", "H", "mH", "real", "imag", "data", "grad", "values", "indices"})
"""Attributes that are where their tensor is."""
_SHARED = frozenset("shape dim ndim numel view reshape transpose squeeze flatten mean sum".split())
"""What arrays of numpy have as well, which meet tensors nowhere."""
_METHODS = TENSOR_METHODS | frozenset(
    "add all any argmax argmin argsort bitwise_and bitwise_or bool byte ceil clip clone cos cosh cumsum data diagonal "
    "diff div dot double eq fill_ flip float floor ge gt index_put index_put_ int inverse isnan le long lt max mean "
    "masked_scatter median min mul ne nonzero pow prod ravel remainder repeat reshape roll round rsub short sin sort "
    "softplus split std sub sum t tan tile topk transpose tril triu type unique var view squeeze flatten where "
    "count_nonzero cross det logit diag".split()
)
_LENGTHS = re.compile(r"len|size|count", re.IGNORECASE)
_GIVES_BATCHES = re.compile(r"loader|dataset|batches|iterator|(^|_)dl$")
_OF_TENSORS = re.compile(r"Tensor\b|\b(Float|Int|Bool|Num|Shaped|Complex)\[")
_OF_NUMBERS = re.compile(r"\b(int|float|bool|str|bytes|complex|slice|Number|Size)\b")
_OF_NOTHING = re.compile(r"\b(Optional|Union|None|typing|t|Literal|Tuple|tuple|List|list|Sequence|Iterable)\b")
_OF_ARRAYS = re.compile(r"ndarray|\bnp\.|numpy|Callable|DataFrame|PIL|Image\b|Path\b|Module\b|[dD]evice\b|dtype\b")
_NO_TENSORS = frozenset({"device", "dtype", "generator", "rng", "kwargs", "args"})


def is_method(name: str) -> bool:
    """Say whether tensors have a method of this name."""
    return name in _METHODS


def shows(attribute: str, *, called: bool) -> bool:
    """Say whether what has this attribute is a tensor, as good as always."""
    if attribute == "size":
        return called
    return attribute in TENSOR_METHODS or attribute in _SHARED


def may_stay(name: str) -> bool:
    """Say whether something of this name may be kept on the CPU by intention."""
    return _LENGTHS.search(name) is not None


def gives_batches(name: str) -> bool:
    """Say whether what iterating over something of this name gives is on the CPU, as a rule."""
    return _GIVES_BATCHES.search(name) is not None


def least_rank(function: ast.AST, name: str) -> int:
    """Return how many dimensions a parameter surely has: as many as it gets indices at once, ``x[:, mask]``."""
    return max((count for indexed, count in _indices(function) if indexed == name), default=1)


@remembered
def _indices(function: ast.AST) -> Iterator[tuple[str, int]]:
    for node in walk(function):
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Tuple(elts=indices)):
                plain = [i for i in indices if not (isinstance(i, ast.Constant) and i.value in (None, ...))]
                yield name, len(plain)
            case _:
                pass


def returns_number(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Say whether a function is declared to return a number or a string, whatever it computes that from."""
    return isinstance(function.returns, ast.Name) and function.returns.id in ("int", "float", "bool", "str")


def annotated(parameter: ast.arg, default: ast.expr | None) -> bool | None:
    """Say whether a parameter is a tensor: its annotation, or a default that is none, tells; None where nothing does.

    A parameter that is no number, but no tensor either, is False like these.
    """
    if parameter.annotation is None:
        number = isinstance(default, ast.Constant) and default.value is not None
        return False if number or parameter.arg in _NO_TENSORS else None
    written = parameter.annotation
    text = written.value if isinstance(written, ast.Constant) else ast.unparse(written)
    if not isinstance(text, str):
        return None
    if _OF_TENSORS.search(text):
        return True
    if _OF_ARRAYS.search(text):
        return False
    rest = _OF_NOTHING.sub("", _OF_NUMBERS.sub("", text))
    return False if _OF_NUMBERS.search(text) and not re.search(r"\w", rest) else None
