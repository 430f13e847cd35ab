"""The server's text equals the client's, whatever is typed, in whatever units the client counts."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsp_client import JSON, Client, apply_edits, debounced, edit, span, units
from lsprotocol import types as lsp

from drygrad.lsp.base.documents import Document, Documents
from drygrad.lsp.base.units import Units
from drygrad.model import Position, Span
from drygrad.static.source import Source

ENCODINGS = ["utf-8", "utf-16", "utf-32"]
NASTY = [
    "a",
    "é",
    "中",
    "😀",
    "e\u0301",
    "\t",
    "\f",
    "\v",
    "\x1c",
    "\x85",
    "\u2028",
    "\u2029",
    "\n",
    "\r\n",
    "\r",
    "x = 1",
]

texts = st.lists(st.sampled_from(NASTY), max_size=25).map("".join)


def lines_of(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


@st.composite
def changes(draw: st.DrawFn, text: str, encoding: str) -> JSON:
    """A change that a client may send: it never begins or ends within a character or a line end."""
    lines = lines_of(text)
    places: list[tuple[int, int]] = []
    for _ in range(2):
        line = draw(st.integers(0, len(lines) - 1))
        places.append((line, draw(st.integers(0, len(lines[line])))))
    (line, column), (end_line, end_column) = sorted(places)
    start, end = units(lines[line][:column], encoding), units(lines[end_line][:end_column], encoding)
    return edit(line, start, end_line, end, draw(texts))


def applied(text: str, change: JSON, encoding: str) -> str:
    return apply_edits(text, [{"range": change["range"], "newText": change["text"]}], encoding)


def documents(encoding: str, text: str) -> Documents:
    workspace = Documents(None, lsp.TextDocumentSyncKind.Incremental, [], encoding)
    workspace.put_text_document(lsp.TextDocumentItem("file:///a.py", lsp.LanguageKind.Python, 1, text))
    return workspace


def event(change: JSON) -> lsp.TextDocumentContentChangePartial:
    return lsp.TextDocumentContentChangePartial(lsp_range(change["range"]), change["text"])


def lsp_range(value: JSON) -> lsp.Range:
    start, end = value["start"], value["end"]
    return lsp.Range(lsp.Position(**start), lsp.Position(**end))


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(data=st.data(), text=texts)
def test_edits_give_the_clients_text(encoding: str, data: st.DataObject, text: str) -> None:
    workspace = documents(encoding, text)
    for version in range(2, 6):
        change = data.draw(changes(text, encoding))
        text = applied(text, change, encoding)
        identifier = lsp.VersionedTextDocumentIdentifier(version, "file:///a.py")
        workspace.update_text_document(identifier, event(change))
        document = workspace.find("file:///a.py")
        assert isinstance(document, Document)
        assert document.source == text
        assert document.version == version


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(data=st.data(), text=texts)
def test_positions_go_to_the_client_and_back(encoding: str, data: st.DataObject, text: str) -> None:
    source, converter, lines = Source(text), Units(encoding), lines_of(text)
    line = data.draw(st.integers(0, len(lines) - 1))
    column = data.draw(st.integers(0, len(lines[line])))
    position = Position(line + 1, column)
    there = converter.from_position(source, position)
    assert there == lsp.Position(line, units(lines[line][:column], encoding))
    assert converter.to_position(source, there) == position


@pytest.mark.parametrize(
    ("text", "range_", "result"),
    [
        ("abc", span(0, 1, 0, 99), "aX"),
        ("abc\ndef", span(0, 99, 1, 0), "abcXdef"),
        ("abc\r\ndef", span(0, 3, 0, 99), "abcX\r\ndef"),
        ("abc\n", span(7, 0, 9, 0), "abc\nX"),
        ("", span(0, 0, 0, 0), "X"),
        ("", span(3, 5, 3, 5), "X"),
    ],
)
def test_positions_beyond_the_text_mean_its_end(text: str, range_: JSON, result: str) -> None:
    workspace = documents("utf-16", text)
    identifier = lsp.VersionedTextDocumentIdentifier(2, "file:///a.py")
    workspace.update_text_document(identifier, event({"range": range_, "text": "X"}))
    document = workspace.find("file:///a.py")
    assert document is not None
    assert document.source == result


def test_our_positions_beyond_the_text_mean_its_end() -> None:
    converter = Units("utf-16")
    assert converter.from_position(Source("ab"), Position(2, 0)) == lsp.Position(0, 2)
    assert converter.from_position(Source("ab\n"), Position(9, 4)) == lsp.Position(1, 0)
    assert converter.from_span(Source(""), Span.of(1, 0, 1, 0)) == lsp.Range(lsp.Position(0, 0), lsp.Position(0, 0))


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_edits_on_the_wire(start: Any, encoding: str) -> None:
    client: Client = start(settings=debounced(0))
    client.initialize(options={"debounce": 0}, encoding=encoding)
    assert client.capabilities["positionEncoding"] == encoding
    text = '# 😀\f\u2028\n"é中😀"; leak()\r\nx = "\x85"; leak()\rleak()\n'
    uri = "file:///a.py"
    client.checked(uri, text)
    inserted = ["\n", "leak()", "😀 = '", "'; leak(); '\u2029", "\r", "#\f\n", "中", "\r\n"]
    for n, new in enumerate(itertools.chain(inserted, inserted)):
        lines = lines_of(text)
        line = n % len(lines)
        character = units(lines[line][: n % (len(lines[line]) + 1)], encoding)
        change = edit(line, character, line, character, new)
        text = applied(text, change, encoding)
        client.change(uri, change)
    final = 'y = "é😀"\nleak()\n😀 = '
    client.change(uri, {"text": '"中😀"; leak()\r\n' + text}, edit(1, 0, 99_999, 0, final))
    version = client.change(uri, edit(3, 0, 3, units("😀 = ", encoding), ""))
    found = client.published(uri, version)
    first = units('"中😀"; ', encoding)
    assert [item["range"] for item in found] == [span(0, first, 0, first + 6), span(2, 0, 2, 6)]
