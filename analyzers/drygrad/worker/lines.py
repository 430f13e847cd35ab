"""Which line of the user's text an operation belongs to, forward and backward.

Forward: the nearest frame of the user's. Backward: autograd numbers its nodes, and creates an operation's node before
the operation reaches a dispatch mode; so the number that was current then leads from the node back to the line.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import ast
import dis
import os
import re
import site
import sys
import sysconfig
import threading
from collections import defaultdict
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

from drygrad.worker.run import Place

_this_thread = threading.get_ident
_WORKER = os.path.dirname(os.path.abspath(__file__)) + os.sep


class Instruction:
    """An instruction of the user's code, cheap to take from a frame; ``Lines.place`` makes a place of it.

    There is one object for each: the hash of a code object is computed of all that it holds, its identity is at hand.
    """

    __slots__ = ("code", "offset")
    code: CodeType
    offset: int

    def __new__(cls, code: CodeType, offset: int) -> Instruction:
        """Return the one object of this instruction."""
        known = _INSTRUCTIONS[id(code)]
        found = known.get(offset)
        if found is None:
            found = known[offset] = super().__new__(cls)
            found.code, found.offset = code, offset
        return found


_INSTRUCTIONS: defaultdict[int, dict[int, Instruction]] = defaultdict(dict)
"""By the identity of the code, which they keep, and the offset."""
_COPY_SLICES = "CopySlices"
_FOREIGN: dict[int, Instruction] = {}
"""What stands for the instructions of code that is not the user's."""


class Lines:
    """Knows the user's files, and the line of each node that autograd has created since the run began."""

    def __init__(self, path: str, root: str | None = None) -> None:
        import torch

        self.path = path
        self._root = os.path.join(os.path.abspath(root), "") if root else None
        self._foreign = _installed_folders()
        self._known: dict[int, dict[int, Instruction]] = {}
        """The instructions of each code of the user's, by its identity and their offsets."""
        self._passed: set[str] = set()
        """Files that are not the user's; the one that holds the autograd engine is none of them."""
        self._codes: list[CodeType] = []
        """Kept, so that their identities stay their own."""
        self._by_node: defaultdict[int, dict[int, tuple[Instruction | None, str]]] = defaultdict(dict)
        """By thread, and the number in it."""
        self._main = threading.get_ident()
        self._engine = torch.autograd.graph._engine_run_backward.__code__
        self._next_number: Any = torch._C._autograd._get_sequence_nr  # pyright: ignore
        self._source: dict[str, list[str]] = {}
        self._places: dict[Instruction, Place] = {}

    def give_source(self, path: str, text: str) -> None:
        """Tell the text of a file, so that columns can be counted in characters."""
        self._source[path] = text.splitlines()
        self._places.clear()

    def source(self, path: str) -> list[str] | None:
        """Return the lines of a file whose text is known."""
        return self._source.get(path)

    def text_of(self, path: str) -> str | None:
        """Return the text of a file, as the editor has it or as it is on the disk."""
        known = self._source.get(path)
        if known is not None:
            return "\n".join(known)
        try:
            with open(path, encoding="utf-8") as file:
                return file.read()
        except (OSError, ValueError):
            return None

    @property
    def texts(self) -> dict[str, list[str]]:
        """The lines of all files whose text is known."""
        return self._source

    def is_user(self, code: CodeType) -> bool:
        """Say whether the code stands in a file of the user's."""
        return code.co_filename not in self._passed and self._of(code) is not _FOREIGN

    def _of(self, code: CodeType) -> dict[int, Instruction]:
        """Return the instructions of a code that are known; ``_FOREIGN`` where it is not the user's."""
        known, name = self._known.get(id(code)), code.co_filename
        if known is not None:
            return known
        if not self.is_user_file(name):
            if name != self._engine.co_filename:
                self._passed.add(name)
            return _FOREIGN
        self._codes.append(code)
        known = self._known[id(code)] = _INSTRUCTIONS[id(code)]
        return known

    def is_user_file(self, name: str) -> bool:
        """Say whether the file of that name is one of the user's."""
        if name == self.path:
            return True
        if name.startswith(("<", _WORKER)) or name.startswith(self._foreign):
            return False
        return self._root is None or os.path.abspath(name).startswith(self._root)

    def frame(self, depth: int = 1) -> FrameType | None:
        """Return the nearest frame of the user's that the caller runs in; None outside, and in the autograd engine."""
        frame: FrameType | None = sys._getframe(depth)
        passed = self._passed
        while frame is not None:
            code = frame.f_code
            if code.co_filename not in passed:
                if code is self._engine:
                    return None
                if self.is_user(code):
                    return frame
            frame = frame.f_back
        return None

    def is_engine(self, frame: FrameType | None) -> bool:
        """Say whether a frame is that of the autograd engine itself, or the beginning of a thread of its."""
        return frame is None or frame.f_code is self._engine

    def is_inside_a_package(self, depth: int = 1) -> bool:
        """Say whether an installed package other than torch, not the user's code, is what asks torch for something."""
        frame: FrameType | None = sys._getframe(depth)
        while frame is not None and not self.is_user(frame.f_code):
            package = str(frame.f_globals.get("__name__")).partition(".")[0]
            if package not in _OURS and _INSTALLED.search(frame.f_code.co_filename):
                return True
            frame = frame.f_back
        return False

    def here(self, depth: int = 1) -> Instruction | None:
        """Return the instruction of the user's that the caller serves; not across the autograd engine."""
        # On the path of every operation, so it is not put together from what is above.
        frame: FrameType | None = sys._getframe(depth)
        passed = self._passed
        while frame is not None:
            code = frame.f_code
            if code.co_filename not in passed:
                if code is self._engine:
                    return None
                known = self._of(code)
                if known is not _FOREIGN:
                    return known.get(frame.f_lasti) or Instruction(code, frame.f_lasti)
            frame = frame.f_back
        return None

    def caller(self, depth: int = 1) -> Place | None:
        """Return the place of the nearest frame of the user's, also when the autograd engine lies between."""
        frame: FrameType | None = sys._getframe(depth)
        while frame is not None:
            if self.is_user(frame.f_code):
                return self.place(Instruction(frame.f_code, frame.f_lasti))
            frame = frame.f_back
        return None

    def created(self, instruction: Instruction | None, op: str) -> None:
        """Remember the line of the node that autograd has just created for an operation.

        The first to come owns the number: an operation without a node sees the number of the one before it.
        """
        nodes, number = self._by_node[_this_thread()], self._next_number() - 1
        if number not in nodes:
            nodes[number] = (instruction, op)

    def last_number(self) -> int:
        """Return the number of the node that autograd has created last in this thread."""
        return self._next_number() - 1

    def of_node(self, node: Any) -> Instruction | None:
        """Return the line that created a node of the graph; None where none did (a leaf's accumulation).

        Numbers are counted per thread: nodes of the forward pass come from the main thread, those that a
        checkpoint computes again from the device's; the operation's name tells which one is meant.
        """
        number, name, thread = node._sequence_nr(), node.name(), _this_thread()
        if thread == self._main and not name.endswith(_COPY_SLICES):  # the usual case of a backward pass
            nodes = self._by_node[thread]
            found = nodes.get(number) or nodes.get(number + 1) or nodes.get(number + 2)
            return found[0] if found is not None else None
        wanted = _bare(name)
        # Some operations copy their input between the creation of their node and their own call; the node of a
        # write through a view comes after it.
        for near in (number - 1, number - 2) if name.endswith(_COPY_SLICES) else (number, number + 1, number + 2):
            candidates = [self._by_node[known].get(near) for known in (thread, self._main)]
            made = [c for c in candidates if c is not None]
            if made:
                return ([c for c in made if _bare(c[1]) == wanted] or made)[0][0]
        return None

    def place(self, instruction: Instruction | None) -> Place | None:
        """Return the place of an instruction; its columns from Python 3.11 on."""
        if instruction is None:
            return None
        place = self._places.get(instruction)
        if place is None:
            name = instruction.code.co_filename
            line, end_line, column, end_column = _position(instruction.code, instruction.offset)
            start, end = self._in_characters(name, line, column), self._in_characters(name, end_line, end_column)
            place = self._places[instruction] = Place(name, line, start, end_line, end)
        return place

    def place_of_node(self, path: str, node: ast.expr) -> Place:
        """Return the place of an expression of a file's syntax tree."""
        start = self._in_characters(path, node.lineno, node.col_offset)
        return Place(
            path, node.lineno, start, node.end_lineno, self._in_characters(path, node.end_lineno, node.end_col_offset)
        )

    def text(self, place: Place) -> str | None:
        """Return the user's text at a place whose columns are known, in as many lines as it has."""
        source, last = self._source.get(place.path), place.end_line or place.line
        if source is None or place.column is None or place.end_column is None or not place.line <= last <= len(source):
            return None
        if last == place.line:
            return source[place.line - 1][place.column : place.end_column]
        between = source[place.line : last - 1]
        return "\n".join([source[place.line - 1][place.column :], *between, source[last - 1][: place.end_column]])

    def place_of_error(self, error: BaseException) -> Place | None:
        """Return the innermost place of the user's that an error passed through."""
        found = None
        trace = error.__traceback__
        while trace is not None:
            if self.is_user(trace.tb_frame.f_code):
                found = Instruction(trace.tb_frame.f_code, trace.tb_lasti)
            trace = trace.tb_next
        return self.place(found)

    def _in_characters(self, path: str, line: int | None, column: int | None) -> int | None:
        source = self._source.get(path)
        if line is None or column is None or source is None or not 0 < line <= len(source):
            return column
        return len(source[line - 1].encode("utf-8")[:column].decode("utf-8", "replace"))


_OURS = ("torch", "drygrad")
_INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")


def _installed_folders() -> tuple[str, ...]:
    """Return the folders that hold installed packages and the standard library."""
    import torch

    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    places |= {*site.getsitepackages(), site.getusersitepackages(), os.path.dirname(os.path.dirname(torch.__file__))}
    return tuple(os.path.join(place, "") for place in places if place)


def _position(code: CodeType, offset: int) -> tuple[int, int | None, int | None, int | None]:
    """Return line, end line, column and end column of an instruction; only the line before Python 3.11."""
    positions: Any = getattr(code, "co_positions", None)
    if positions is not None:
        line, end_line, column, end_column = list(positions())[offset // 2]
        if line is not None:
            return line, end_line, column, end_column
    return _line(code, offset), None, None, None


def _line(code: CodeType, offset: int) -> int:
    line = code.co_firstlineno
    for start, number in dis.findlinestarts(code):
        if start > offset:
            break
        line = number or line
    return line


@lru_cache(maxsize=1024)
def _bare(name: str) -> str:
    """Return the name that a node (``AddmmBackward0``) and its operation (``aten::addmm.out``) share."""
    last = name.rpartition("::")[2]
    last = re.sub(r"Backward\d*$", "", last) if "Backward" in last else last.split(".")[0]
    return last.replace("_", "").lower()
