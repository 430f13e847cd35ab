"""Inputs that an annotation describes: ``int``, ``Literal["a"]``, ``Float[Tensor, "b c h w"]``, ``Callable``."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from drygrad.dryrun.inputs import conventions
from drygrad.dryrun.inputs.nodes import Node, row, tensor, text, with_others
from drygrad.parsing import parsed_expression

SOURCE = "annotation"

_JAXTYPING: Mapping[str, str] = {
    "Float": "float32", "Float32": "float32", "Float16": "float16", "BFloat16": "bfloat16", "Float64": "float64",
    "Num": "float32", "Shaped": "float32", "Inexact": "float32", "Real": "float32", "Int": "int64", "Int64": "int64",
    "Int32": "int32", "Integer": "int64", "UInt8": "uint8", "Bool": "bool",
}  # fmt: skip
_TENSORS: Mapping[str, str] = {
    "Tensor": "", "FloatTensor": "float32", "LongTensor": "int64", "IntTensor": "int32", "BoolTensor": "bool",
    "HalfTensor": "float16", "ByteTensor": "uint8", "DoubleTensor": "float64",
}  # fmt: skip
_AXES: Mapping[str, int] = {
    "b": 2, "batch": 2, "bs": 2, "n": 8, "t": 8, "s": 8, "seq": 8, "l": 8, "length": 8, "time": 8, "tokens": 8,
    "c": 3, "channels": 3, "h": 32, "w": 32, "height": 32, "width": 32, "d": 64, "dim": 64, "e": 64, "features": 64,
    "f": 4, "frames": 4, "heads": 4,
}  # fmt: skip
_OTHER_SIZES = (5, 6, 7, 9, 10, 11)
_VALUES: Mapping[str, str] = {
    "float": "0.5", "bool": "False", "str": "'name'", "bytes": "b''", "None": "None", "device": conventions.DEVICE,
    "dtype": "torch.float32", "Generator": "torch.Generator()", "Size": "torch.Size([2, 8])",
    "dict": "{}", "Dict": "{}",
    "Callable": conventions.ANY_CALL,
    "Path": "__import__('pathlib').Path('dry-run.tmp')", "slice": "slice(None)",
    "ndarray": "torch.rand(32, 32).numpy()", "type": "torch.nn.ReLU",
}  # fmt: skip
_OTHERS = frozenset("int list tuple sequence iterable module optional union".split())


def parsed(annotation: ast.expr | None) -> ast.expr | None:
    """Return an annotation that may be written as a string as the expression it stands for."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            return parsed_expression(annotation.value.strip())
        except (SyntaxError, ValueError):
            return None
    return annotation


def is_known(name: str) -> bool:
    """Say whether a type is one of Python's, NumPy's or torch's that describes a value by itself."""
    return name in _VALUES or name in _TENSORS or name.lower() in _OTHERS


def last_name(node: ast.expr | None) -> str:
    """Return the last part of the name that an annotation begins with: ``Tensor`` for ``torch.Tensor``."""
    node = node.value if isinstance(node, ast.Subscript) else node
    if isinstance(node, ast.Constant) and node.value is None:
        return "None"
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def members(annotation: ast.expr | None) -> list[ast.expr]:
    """Return the alternatives of a union, ``None`` last; one alone is its only member."""
    node = parsed(annotation)
    if node is None:
        return []
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        found = [*members(node.left), *members(node.right)]
    elif isinstance(node, ast.Subscript) and last_name(node) in ("Optional", "Union"):
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        found = [member for part in inner for member in members(part)]
    else:
        return [node]
    return sorted(found, key=lambda member: last_name(member) == "None")


def dtype_of_tensor(node: ast.expr) -> str | None:
    """Return the dtype that a tensor's annotation says, empty where it says none; None where it means no tensor."""
    return _TENSORS.get(last_name(node)) if not isinstance(node, ast.Subscript) else None


def by_annotation(node: ast.expr, sizes: dict[str, int]) -> Node | None:
    """Return what an annotation describes by itself; ``sizes`` are those of axes that were named before."""
    name = last_name(node)
    if isinstance(node, ast.Subscript):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if name == "Literal":
            return text(ast.unparse(parts[0]), SOURCE)
        if name in _JAXTYPING and len(parts) == 2:
            return _described(parts[1], _JAXTYPING[name], sizes)
        if name == "Annotated" and dtype_of_tensor(parts[0]) is not None:
            described = (_described(part, dtype_of_tensor(parts[0]) or "float32", sizes) for part in parts[1:])
            return next((found for found in described if found is not None), None)
        if name.lower() in ("list", "sequence", "iterable", "tuple"):
            return _several(name, parts, sizes)
    return text(_VALUES[name], SOURCE) if name in _VALUES else None


def _several(name: str, parts: list[ast.expr], sizes: dict[str, int]) -> Node | None:
    parts = [part for part in parts if not (isinstance(part, ast.Constant) and part.value is ...)]
    made = [_element(part, sizes) for part in parts]
    made = made * 2 if len(made) == 1 else made
    found = [part for part in made if part is not None]
    kind = "tuple" if name.lower() == "tuple" else "list"
    return row(kind, found, SOURCE) if found and len(found) == len(made) else None


def _element(node: ast.expr, sizes: dict[str, int]) -> Node | None:
    if last_name(node) == "int":
        return {"kind": "number", "value": 2, "source": SOURCE}
    dtype = dtype_of_tensor(node)
    if dtype is not None:
        return tensor((2, 64), dtype or "float32", SOURCE, high=2)
    return by_annotation(node, sizes)


def _described(node: ast.expr, dtype: str, sizes: dict[str, int]) -> Node | None:
    """Return the tensor of a shape in words (``"b 3 h w"``) or numbers (``(8, 3)``)."""
    shape: list[int] = []
    if isinstance(node, ast.Tuple) and all(isinstance(e, ast.Constant) for e in node.elts):
        shape = [int(e.value) for e in node.elts if isinstance(e, ast.Constant) and isinstance(e.value, int)]
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        tokens = re.findall(r"[^\s,\[\]()]+", node.value)
        shape = [size for token in tokens for size in axis(token, sizes)]
    else:
        return None
    return tensor(shape, dtype, SOURCE, high=2, why="")


def axis(token: str, sizes: dict[str, int]) -> list[int]:
    """Return the size of an axis that is named; ``sizes`` are those of axes that were named before."""
    if token in ("...", "_"):
        return [2]
    bare = token.lstrip("*#_?").rpartition("=")[2]
    if bare.isdigit():
        return [int(bare)]
    if bare not in sizes:
        free = next((size for size in _OTHER_SIZES if size not in sizes.values()), 12)
        sizes[bare] = _AXES.get(bare.lower(), free)
    return [sizes[bare]]


def or_none(node: Node) -> Node:
    """Return a node that could also be None."""
    return with_others(node, text("None", SOURCE))
