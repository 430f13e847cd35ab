"""A plot as PNG shows what the SVG says: its shapes in their colours, its texts in dots."""

from __future__ import annotations

import struct
import zlib

import pytest

from drygrad.dryrun.dot_font import dots
from drygrad.dryrun.memory_plot import LIGHT
from drygrad.dryrun.plot_png import as_png


def drawn(elements: str) -> list[list[str]]:
    """Return the colours of a picture, row by row."""
    data = as_png(f'<svg xmlns="http://www.w3.org/2000/svg" width="60" height="40">{elements}</svg>')
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    at, parts = 8, dict[bytes, bytes]()
    while at < len(data):
        size, name = struct.unpack(">I4s", data[at : at + 8])
        parts[name], crc = data[at + 8 : at + 8 + size], data[at + 8 + size : at + 12 + size]
        assert struct.unpack(">I", crc)[0] == zlib.crc32(name + parts[name])
        at += 12 + size
    width, height, *form = struct.unpack(">IIBBBBB", parts[b"IHDR"])
    assert (width, height, form) == (120, 80, [8, 2, 0, 0, 0])
    rows = zlib.decompress(parts[b"IDAT"])
    each = [rows[k * (3 * width + 1) :][: 3 * width + 1] for k in range(height)]
    assert all(row[0] == 0 for row in each)
    return [["#" + row[3 * x + 1 : 3 * x + 4].hex() for x in range(width)] for row in each]


def inked(elements: str, colour: str) -> set[tuple[int, int]]:
    return {(x, y) for y, row in enumerate(drawn(elements)) for x, found in enumerate(row) if found == LIGHT[colour]}


@pytest.mark.parametrize(
    ("element", "colour", "covered", "free"),
    [
        (
            '<rect class="states" x="10" y="10" width="5" height="5"/>',
            "states",
            {(20, 20), (29, 29)},
            {(19, 20), (30, 29)},
        ),
        (
            '<path class="inputs" d="M0 0L20 0 20 20 0 20Z"><title>inputs</title></path>',
            "inputs",
            {(0, 0), (39, 39)},
            {(40, 0)},
        ),
        ('<path class="activations" d="M0 0L40 40 0 40Z"/>', "activations", {(2, 70), (60, 70)}, {(60, 30)}),
        ('<path class="limit" d="M5 10.0H40"/>', "limit", {(11, 20), (36, 20)}, {(25, 20), (11, 24)}),
        ('<path class="refused" d="M10 10l8 8m0-8l-8 8"/>', "limit", {(28, 28), (22, 22), (34, 22)}, {(28, 20)}),
        ('<circle class="peak" cx="20" cy="20" r="4"/>', "ink", {(40, 40), (46, 40)}, {(48, 48)}),
    ],
)
def test_shapes(element: str, colour: str, covered: set[tuple[int, int]], free: set[tuple[int, int]]) -> None:
    found = inked(element, colour)
    assert covered <= found
    assert not free & found


def test_texts_begin_and_end_where_they_say() -> None:
    begins = inked('<text x="10.0" y="20.0" class="faint">ll</text>', "faint")
    ends = inked('<text x="22.0" y="20.0" class="faint" text-anchor="end">ll</text>', "faint")
    assert begins == ends != set()
    assert {y for _, y in begins} == set(range(26, 40)), "seven rows of dots, two wide, upon the line"


def test_each_character_that_can_be_seen_has_dots_of_its_own() -> None:
    seen = {tuple(dots(chr(code))) for code in range(33, 127)}
    assert len(seen) == 94
    assert dots("\N{SNOWMAN}") == dots("?") and not dots(" ")
