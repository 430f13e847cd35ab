"""The numbers of a text that decide how large its tensors are: samples in a batch, positions in a sequence."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from drygrad.dryrun.inputs.arguments import Argument
from drygrad.model import Edit
from drygrad.parsing import parsed_expression
from drygrad.static.source import Source

BATCH, SEQUENCE = "batch", "sequence"
_PREFIX = r"(?:(?:train|training|per|device|gpu|micro|mini|global|local|n|num|the)_)*"
_NAMES = {
    BATCH: re.compile(rf"{_PREFIX}(?:batch(?:_?si?ze?)?|bsz?|b)(?:_per_(?:gpu|device|rank))?", re.IGNORECASE),
    SEQUENCE: re.compile(
        r"(?:max_|n_|num_)?(?:seq|sequence|context|ctx|block|window|src|text|token|tokens)_?(?:len|length|size)?"
        r"|(?:max_?)?(?:seqlen|length|len)|t|s|max_position_embeddings",
        re.IGNORECASE,
    ),
}
_SHORT = frozenset({"b", "t", "s", "len", "length", "text", "window", "block", "tokens", "token", "src"})
"""Names that mean a size only beside others: in ``B, T = 8, 1024``."""
_FACTORIES = frozenset({"randn", "rand", "zeros", "ones", "empty", "randint", "full", "normal"})


@dataclass(frozen=True)
class Size:
    """A number of the text, at each place where it must change."""

    what: str
    name: str
    """What the program calls it; empty where it stands in shapes alone."""
    value: int
    nodes: tuple[ast.Constant, ...] = field(compare=False)

    @property
    def line(self) -> int:
        """The first line that it stands in."""
        return self.nodes[0].lineno

    def edits(self, source: Source, value: int) -> tuple[Edit, ...]:
        """Return what makes it another number."""
        return tuple(Edit(source.span(node), str(value)) for node in self.nodes)


def sizes(source: Source, what: str) -> list[Size]:
    """Return the numbers that may decide a size, the likeliest first; those of evaluation are left out."""
    named = [Size(what, name, _value(node), (node,)) for name, node in _named(source.tree) if _is(what, name)]
    long = [size for size in named if size.name.lower() not in _SHORT]
    found = (long or named) + (_in_shapes(source.tree) if what == BATCH else [])
    return [size for size in dict.fromkeys(found) if size.value > 0]


def _is(what: str, name: str) -> bool:
    return _NAMES[what].fullmatch(name.replace("-", "_")) is not None


def _value(node: ast.Constant) -> int:
    return node.value if isinstance(node.value, int) else 0


def _named(tree: ast.AST) -> Iterator[tuple[str, ast.Constant]]:
    """Yield the whole numbers of a text with the names that they are given."""
    for node in ast.walk(tree):
        for name, value in _bound(node):
            if isinstance(value, ast.Constant) and type(value.value) is int:
                yield name, value


def _bound(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    match node:
        case ast.Assign([ast.Tuple(names)], ast.Tuple(values)) if len(names) == len(values):
            yield from ((_name(name), value) for name, value in zip(names, values, strict=True))
        case ast.Assign(targets, value):
            yield from ((_name(target), value) for target in targets)
        case ast.AnnAssign(target, _, value):
            yield _name(target), value
        case ast.FunctionDef(_, arguments) | ast.AsyncFunctionDef(_, arguments) | ast.Lambda(arguments):
            yield from _defaults(arguments)
        case ast.Call(ast.Attribute(_, "add_argument"), flags, keywords):
            default = next((keyword.value for keyword in keywords if keyword.arg == "default"), None)
            words = [flag.value for flag in flags if isinstance(flag, ast.Constant) and isinstance(flag.value, str)]
            yield from ((word.lstrip("-"), default) for word in words)
        case ast.Call(_, _, keywords):
            yield from ((keyword.arg or "", keyword.value) for keyword in keywords)
        case ast.Dict(keys, values):
            pairs = zip(keys, values, strict=True)
            yield from ((str(key.value), value) for key, value in pairs if isinstance(key, ast.Constant))
        case _:
            pass


def _name(target: ast.expr) -> str:
    return target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else ""


def _defaults(arguments: ast.arguments) -> Iterator[tuple[str, ast.expr | None]]:
    positional = [*arguments.posonlyargs, *arguments.args]
    count = len(arguments.defaults)
    if count:
        yield from zip((each.arg for each in positional[-count:]), arguments.defaults, strict=True)
    yield from zip((each.arg for each in arguments.kwonlyargs), arguments.kw_defaults, strict=True)


def _in_shapes(tree: ast.AST) -> list[Size]:
    """Return the numbers that come first in shapes of tensors that are made outside of classes, the commonest first."""
    found: defaultdict[int, list[ast.Constant]] = defaultdict(list)
    for call in _calls_outside_classes(tree):
        first = _first_size(call)
        if first is not None:
            found[_value(first)].append(first)
    ordered = sorted(found.items(), key=lambda item: -len(item[1]))
    return [Size(BATCH, "", value, tuple(nodes)) for value, nodes in ordered if value > 1]


def _calls_outside_classes(node: ast.AST) -> Iterator[ast.Call]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            continue
        if isinstance(child, ast.Call):
            yield child
        yield from _calls_outside_classes(child)


def _first_size(call: ast.Call) -> ast.Constant | None:
    """Return the first size of a tensor that a call makes, where that is written as a number."""
    function = call.func
    name = (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )
    if name not in _FACTORIES:
        return None
    shape = next((keyword.value for keyword in call.keywords if keyword.arg == "size"), None)
    sequence = next((each for each in call.args if isinstance(each, (ast.Tuple, ast.List))), shape)
    if isinstance(sequence, (ast.Tuple, ast.List)):
        first = sequence.elts[0] if sequence.elts else None
    else:
        first = call.args[0] if call.args and name not in ("randint", "full", "normal") else None
    return first if isinstance(first, ast.Constant) and type(first.value) is int else None


def batch_of(arguments: Sequence[Argument]) -> int | None:
    """Return how many samples the texts of arguments make tensors of; None where they say none, or several."""
    found = {_value(node) for argument in arguments for node in _sizes_of(argument)}
    return found.pop() if len(found) == 1 and found != {1} else None


def with_batch(argument: Argument, value: int) -> str:
    """Return the text of an argument with as many samples."""
    source = Source(argument.text)
    text = argument.text
    for node in sorted(_sizes_of(argument), key=lambda node: -node.col_offset):
        span = source.span(node)
        text = text[: source.offset(span.start)] + str(value) + text[source.offset(span.end) :]
    return text


def _sizes_of(argument: Argument) -> list[ast.Constant]:
    try:
        tree = parsed_expression(argument.text)
    except (SyntaxError, ValueError):
        return []
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [first for call in calls if (first := _first_size(call)) is not None]
