"""One thing that an error asks of the inputs."""

from __future__ import annotations

from dataclasses import dataclass

from drygrad.worker.search.nodes import Path


@dataclass(frozen=True)
class Want:
    """One thing that an error asks for.

    ``kind``: size (``got`` should be ``want``, or a multiple of it) · rank · dtype · range (values below ``want``) ·
    shape (of what has ``got`` elements now) · definite (positive-definite
    matrices) · choice (one of ``choices`` for ``text``) · larger · unit (probabilities) · device · other (anything else
    in this place) · swap (another module) · lack (an argument of the name ``text``) · named (another value for what is
    called ``text``) · entry (of a mapping) · attribute (of an object; ``want``: it is called) ·
    behaviour (the special method ``text`` of a stand-in) ·
    state (the attribute ``text`` of an object, which has the attributes ``choices``; ``want``: these are called) ·
    surplus (the argument ``text``, which nobody takes) · array (not a tensor) · several (tensors) · flag (what is
    called as one of ``choices``) · instance (of one of ``choices``).
    ``paths`` are the parts that it concerns; None: any; ``old`` is the shape that such a part has now.
    """

    kind: str
    want: int = 0
    got: int = 0
    multiple: bool = False
    dtype: str = ""
    shape: tuple[int, ...] = ()
    old: tuple[int, ...] | None = None
    text: str = ""
    paths: frozenset[Path] | None = None
    why: str = ""
    choices: tuple[str, ...] = ()
