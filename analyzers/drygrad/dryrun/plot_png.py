"""The picture of a forecast's memory as PNG: draws the elements that ``memory_plot`` writes, in light colours.

It knows rectangles, circles, paths of straight lines and texts, each with one of the plot's classes, and nothing else
of SVG.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import ceil, cos, hypot, pi, sin
from xml.etree import ElementTree

from drygrad.dryrun import dot_font
from drygrad.dryrun.memory_plot import LIGHT

_SCALE = 2
_STROKES: Mapping[str, tuple[str, float, tuple[float, ...]]] = {
    "grid": ("grid", 1, ()),
    "reserved": ("ink", 1.2, ()),
    "step": ("faint", 1, (2, 4)),
    "limit": ("limit", 1.5, (7, 4)),
    "refused": ("limit", 2.5, ()),
}
"""Colour, width and dashes of lines, by their class."""
_INKS = {"faint": "faint", "over": "limit", "peak": "ink", "unknown": "faint"}
_BOLD = ("title", "mark")
_ADVANCE = 6
_COMMAND = re.compile(r"([MLHVlhmZ])([^MLHVlhmZ]*)")
Point = tuple[float, float]


def as_png(svg: str) -> bytes:
    """Return a plot, given as SVG, as PNG."""
    root = ElementTree.fromstring(svg)
    canvas = _Canvas(int(root.attrib["width"]), int(root.attrib["height"]))
    for element in root:
        _draw(canvas, element.tag.rpartition("}")[2], element.attrib, element.text or "")
    return canvas.png()


def _draw(canvas: _Canvas, tag: str, given: Mapping[str, str], text: str) -> None:
    style = given.get("class", "")
    ink = LIGHT[_INKS.get(style, style if style in LIGHT else "ink")]
    if tag == "rect":
        x, y, width, height = (float(given.get(name, "0")) for name in ("x", "y", "width", "height"))
        canvas.fill([(x, y), (x + width, y), (x + width, y + height), (x, y + height)], ink)
    elif tag == "circle":
        x, y, r = (float(given[name]) for name in ("cx", "cy", "r"))
        canvas.fill([(x + r * cos(a * pi / 12), y + r * sin(a * pi / 12)) for a in range(24)], ink)
    elif tag == "text":
        canvas.write(text, float(given["x"]), float(given["y"]), given.get("text-anchor", ""), ink, style)
    elif tag == "path" and style in _STROKES:
        colour, width, dashes = _STROKES[style]
        for line in _lines(given["d"]):
            for start, end in pairwise(line):
                canvas.stroke(start, end, LIGHT[colour], width, dashes)
    elif tag == "path":
        for line in _lines(given["d"]):
            canvas.fill(line, ink)


def _lines(path: str) -> Iterator[list[Point]]:
    """Yield the points of each line of a path."""
    line: list[Point] = []
    x = y = 0.0
    for command, rest in _COMMAND.findall(path):
        numbers = [float(number) for number in re.findall(r"-?[\d.]+", rest)]
        if command in "Mm" and line:
            yield line
            line = []
        if command in "HhV":
            x, y = (numbers[0] + x * (command == "h"), y) if command in "Hh" else (x, numbers[0])
            line.append((x, y))
        for right, down in zip(numbers[::2], numbers[1::2], strict=False) if command in "MLml" else ():
            x, y = (right + x, down + y) if command in "ml" else (right, down)
            line.append((x, y))
    if line:
        yield line


class _Canvas:
    """Rows of dots, each red, green and blue; coordinates are those of the plot."""

    def __init__(self, width: int, height: int) -> None:
        self._width, self._height = width * _SCALE, height * _SCALE
        self._rows = [bytearray(b"\xff" * 3 * self._width) for _ in range(self._height)]

    def fill(self, points: Sequence[Point], colour: str) -> None:
        """Fill what points go round."""
        crossings: defaultdict[int, list[float]] = defaultdict(list)
        scaled = [(x * _SCALE, y * _SCALE) for x, y in points]
        for (x, y), (right, low) in zip(scaled, [*scaled[1:], scaled[0]], strict=True):
            (top_x, top), (end_x, end) = sorted(((x, y), (right, low)), key=lambda point: point[1])
            for row in range(max(0, ceil(top - 0.5)), min(self._height, ceil(end - 0.5))):
                crossings[row].append(top_x + (end_x - top_x) * (row + 0.5 - top) / (end - top))
        for row, found in crossings.items():
            found.sort()
            for left, until in zip(found[::2], found[1::2], strict=False):
                self._span(row, round(left), round(until), colour)

    def stroke(self, start: Point, end: Point, colour: str, width: float, dashes: tuple[float, ...]) -> None:
        """Draw a straight line, of dashes where it has some: how long each is, and the gap behind it."""
        (x, y), (right, low) = start, end
        length = hypot(right - x, low - y)
        if not length:
            return
        along = ((right - x) / length, (low - y) / length)
        aside = (-along[1] * width / 2, along[0] * width / 2)
        for begin, until in _dashes(length, dashes):
            ends = [(x + along[0] * at, y + along[1] * at) for at in (begin, until)]
            sides = [
                (px + aside[0] * sign, py + aside[1] * sign)
                for (px, py), sign in zip(ends * 2, (1, 1, -1, -1), strict=True)
            ]
            self.fill([sides[0], sides[1], sides[3], sides[2]], colour)

    def write(self, text: str, x: float, y: float, anchor: str, colour: str, style: str) -> None:
        """Write a text upon its line."""
        before = {"end": 1.0, "middle": 0.5}.get(anchor, 0.0) * _ADVANCE * len(text)
        left, top = round((x - before) * _SCALE), round(y * _SCALE) - _SCALE * 7
        placed = [
            (left + _SCALE * (_ADVANCE * place + column), top + _SCALE * row)
            for place, character in enumerate(text)
            for column, row in dot_font.dots(character)
        ]
        if style == "mark":  # it lies upon the curves
            self._dots(((px - 2, py - 2) for px, py in placed), LIGHT["page"], _SCALE + 4)
        self._dots(placed, colour, _SCALE + (style in _BOLD))

    def _dots(self, places: Iterable[tuple[int, int]], colour: str, size: int) -> None:
        for x, y in places:
            for row in range(max(0, y), min(self._height, y + size)):
                self._span(row, x, x + size, colour)

    def _span(self, row: int, left: int, right: int, colour: str) -> None:
        left, right = max(0, left), min(self._width, right)
        if left < right:
            self._rows[row][3 * left : 3 * right] = bytes.fromhex(colour[1:]) * (right - left)

    def png(self) -> bytes:
        """Return the file."""
        header = struct.pack(">IIBBBBB", self._width, self._height, 8, 2, 0, 0, 0)
        rows = zlib.compress(b"".join(b"\0" + row for row in self._rows), 9)
        return b"\x89PNG\r\n\x1a\n" + b"".join(_chunks(header, rows))


def _chunks(header: bytes, rows: bytes) -> Iterator[bytes]:
    """Yield the parts of a PNG file."""
    for name, data in ((b"IHDR", header), (b"IDAT", rows), (b"IEND", b"")):
        yield struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _dashes(length: float, dashes: tuple[float, ...]) -> Iterator[tuple[float, float]]:
    """Yield where dashes begin and end."""
    if not dashes:
        yield 0.0, length
        return
    at = 0.0
    while at < length:
        yield at, min(at + dashes[0], length)
        at += sum(dashes)
