"""Shapes that comments and docstrings tell: ``x: (batch, time, 3) long``, ``obs: Tensor  # (batch, features)``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from drygrad.dryrun.inputs import annotations
from drygrad.dryrun.inputs.arguments import FunctionNode, parameter_names
from drygrad.dryrun.inputs.nodes import Node, tensor
from drygrad.dryrun.targets import definitions
from drygrad.static.source import Source

SOURCE = "documented shape"
ELSEWHERE = "shape documented elsewhere"
"""The source of shapes that are told of another function's variable of the same name."""

SHAPE = r"[(\[]\s*(?P<shape>[\w*]+(?:=\d+)?(?:\s*[,x\u00d7]\s*[\w*]+(?:=\d+)?)*\s*,?)\s*[)\]]"
_DESCRIBED = re.compile(
    rf"(?<![\w.])`{{0,2}}(?P<name>(?!shape\b|size\b)[a-z_]\w*)`{{0,2}}\s*(?:[:=\-]|\bis\b|\bare\b|\bof\b)?\s*"
    rf"(?:\(?(?:torch[. ])?(?:Float|Long|Bool)?Tensor\)?[,:]?\s*)?"
    rf"(?:(?:bool(?:ean)?|float(?:32)?|long|int(?:64)?)[,:]?\s+)?"
    rf"(?:of\s+)?(?:shape\s*[:=]?\s*)?{SHAPE}"
    r"(?=(?P<rest>[^\n;.(]{0,30}))"
)
_BESIDE = re.compile(
    rf"^\s*(?P<name>[a-z_]\w*)\s*(?::[^#\n]*?)?(?:=[^#\n]*?)?,?\s*#[^(\[\n]*?{SHAPE}(?P<rest>[^\n;]{{0,40}})",
    re.MULTILINE,
)
_FIELD = re.compile(
    r"^[ \t]*(?::param\s+(?:[\w.\[\], ]+\s)?(?P<field>\w+)\s*:|`{0,2}(?P<name>[a-z_]\w*)`{0,2}\s*(?:\([^)\n]*\)\s*)?:)"
    r"(?P<text>(?:[^\n]|\n(?![ \t]*(?:\n|$|:\w|`{0,2}\w+`{0,2}\s*(?:\([^)\n]*\)\s*)?:)))*)",
    re.MULTILINE,
)
"""What a docstring says of a parameter, up to an empty line or the next one: in the fields of Sphinx or of Google."""
_SAID = re.compile(
    rf"\b(?:shape|size|dimensions?|dims)\b[\s`:=*]*(?:of|is|are)?[\s`]*{SHAPE}(?P<rest>[^\n;.(]{{0,30}})", re.IGNORECASE
)
_NUMBER = re.compile(r"\((?:int|float|bool|str)\b")
_SEVERAL = re.compile(r"\b(?:both|each|all|tuple|list|pair|dict|dictionary)\b", re.IGNORECASE)
_INTEGERS = re.compile(r"\b(long|int64|int|integers?|ids?|indices|class(es)?|LongTensor|labels?)\b")
_DTYPE = re.compile(r"\b(uint8|int8|int16|int32|float16|float64|bfloat16)\b")
_BOOLEANS = re.compile(r"\bbool(ean)?s?\b|\bmask\b")
_NO_AXIS = re.compile(
    r"(e|i|optional|default|str|float|bool|int|int64|tensor|none|true|false|list|dict|n/a)", re.IGNORECASE
)


def tokens_of(shape: str) -> list[str]:
    """Return what a shape that is written down has between its commas."""
    return [token for token in re.split(r"\s*[,\u00d7]\s*|\s+x\s+", shape.strip()) if token]


class Hints:
    """What a file tells of the shapes of its variables; ``sizes`` are those of the axes named so far."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.sizes: dict[str, int] = {}
        self._near: dict[str, Node] = {}

    def enter(self, function: FunctionNode) -> None:
        """Let what is written of a function's own parameters come before all else."""
        last = function.body[0].lineno
        lines = "\n".join(self._source.line_text(n) for n in range(function.lineno, last + 1))
        prose = ast.get_docstring(function) or ""
        before: dict[str, Node] = {}
        for name in parameter_names(function, None):
            match = re.search(rf"{SHAPE}(?P<rest>[^\n.,;:()\[\]]{{0,30}}?)\b{name}\b", prose)
            if match is not None and (hint := self._of(match)) is not None:
                before[name] = hint
        self._near = {**before, **dict(self._fields(prose)), **dict(self._read(f"{lines}\n", prose))}

    def tensor(self, names: Sequence[str]) -> Node | None:
        """Return the tensor that one of the names is said to be."""
        own = self._near.get(names[0]) if names else None
        other = next((self._everywhere[name] for name in names if name in self._everywhere), None)
        return own or (None if other is None else {**other, "source": ELSEWHERE})

    @cached_property
    def _everywhere(self) -> dict[str, Node]:
        found: dict[str, Node] = dict(self._read(self._source.text, ""))
        for _, node in definitions(self._source.tree.body):
            for name, hint in self._read("", ast.get_docstring(node) or ""):
                found.setdefault(name, hint)
        return found

    def _read(self, code: str, prose: str) -> Iterator[tuple[str, Node]]:
        for pattern, text in ((_BESIDE, code), (_DESCRIBED, prose)):
            for match in pattern.finditer(text):
                made = self._of(match)
                if made is not None:
                    yield match["name"], made

    def _fields(self, prose: str) -> Iterator[tuple[str, Node]]:
        """Yield the parameters of whose shape a docstring speaks where it describes them."""
        for field in _FIELD.finditer(prose):
            said = _SAID.search(field["text"])
            if said is None or _SEVERAL.search(field["text"][: said.start()]) or _NUMBER.search(_head(field)):
                continue
            made = self._of(said) if not all(token.isdecimal() for token in tokens_of(said["shape"])) else None
            if made is not None:
                yield field["field"] or field["name"], made

    def _of(self, match: re.Match[str]) -> Node | None:
        shape, rest = match["shape"], match["rest"]
        if match.string.startswith("(", match.end("rest")):
            rest = rest.rpartition(",")[0]  # the name of what is described next
        if match.re is _DESCRIBED:
            rest = f"{match.string[match.end('name') : match.start('shape')]}, {rest}"
        elif match.re is _SAID:
            rest = f"{rest}, {match.string[: match.start()]}"
        tokens = tokens_of(shape)
        if not tokens or len(tokens) > 6 or any(_NO_AXIS.fullmatch(token) for token in tokens):
            return None
        if (
            len(tokens) == 1
            and not shape.rstrip().endswith(",")
            and not re.fullmatch(r"[A-Z]|batch\w*|[nbt]", tokens[0])
        ):
            return None
        sizes = [size for token in tokens for size in annotations.axis(token, self.sizes)]
        rest = rest.partition(",")[0] if _INTEGERS.search(rest.partition(",")[0]) else rest
        plain = _DTYPE.search(rest)
        if plain is not None:
            return tensor(sizes, plain[0], SOURCE, high=256 if plain[0] == "uint8" else 2)
        if _INTEGERS.search(rest):
            return tensor(sizes, "int64", SOURCE, high=2)
        return tensor(sizes, "bool" if _BOOLEANS.search(rest) else "float32", SOURCE)


def _head(field: re.Match[str]) -> str:
    """Return what stands before the colon behind which a parameter is described."""
    return field.string[field.start() : field.start("text")]
