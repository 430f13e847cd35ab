"""Texts: how bytes become characters and back, where lines end, and what cannot be parsed."""

from __future__ import annotations

import ast
import codecs
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drygrad.model import Position
from drygrad.static.source import MAX_CHARACTERS, Source, SourceError, SourceSyntaxError, decode, encode


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"x = 1\n", "x = 1\n"),
        ("x = 'é'\r\n".encode(), "x = 'é'\r\n"),
        (codecs.BOM_UTF8 + b"x = 1\n", "x = 1\n"),
        (b"# -*- coding: latin-1 -*-\nx = '\xe9'\n", "# -*- coding: latin-1 -*-\nx = 'é'\n"),
        (b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\nx = '\x80'\n", None),
        (b"", ""),
    ],
)
def test_decoding_follows_python_and_encoding_goes_back(data: bytes, text: str | None) -> None:
    decoded = decode(data)
    assert text is None or decoded == text
    assert encode(decoded, data) == data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x7fELF\x00\x00", "binary"),
        (b"x = '\xff'\n", "cannot decode"),
        (b"# coding: klingon\n", "cannot decode"),
        (codecs.BOM_UTF8 + b"# coding: latin-1\n", "cannot decode"),
        ("x = 1".encode("utf-16"), "binary"),
    ],
)
def test_what_is_not_python_text_is_said_to_be_so(data: bytes, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        decode(data)


@pytest.mark.parametrize("text", ["x = (\n", "if x:\n", "x = 'a\n", "print 1\n", "\tx\n  y\n"])
def test_broken_syntax_has_a_place(text: str) -> None:
    with pytest.raises(SourceSyntaxError, match="cannot parse: ") as caught:
        Source(text).parse()
    assert caught.value.position.line >= 1


@pytest.mark.parametrize("text", ["-" * 100_000 + "1", "x" + ".a" * 200_000, "x = " + "[" * 50_000])
def test_deep_nesting_is_a_clear_message(text: str) -> None:
    with pytest.raises(SourceError, match="nested"):
        Source(text).parse()


def test_huge_texts_are_refused() -> None:
    with pytest.raises(SourceError, match="reads up to"):
        Source("#" * (MAX_CHARACTERS + 1)).parse()


def test_a_bom_inside_the_text_does_not_disturb() -> None:
    assert isinstance(Source("\ufeffx = 1\n").parse(), ast.Module)


@given(st.text(alphabet="ab😀é\r\n\f\v\u2028\x85", max_size=40))
def test_positions_and_offsets_are_inverse(text: str) -> None:
    source = Source(text)
    assert "".join(source.lines) == text
    for offset in range(len(text) + 1):
        assert source.offset(source.position(offset)) == offset


def test_the_line_ends_are_those_of_the_tokenizer() -> None:
    source = Source("a\fb\r\nc\u2028d\re\n")
    assert [source.line_text(n) for n in (1, 2, 3, 4)] == ["a\fb", "c\u2028d", "e", ""]
    assert source.position(5) == Position(2, 0)


def test_bytes_become_characters() -> None:
    source = Source("x = '😀é' + value\n")
    name = next(n for n in ast.walk(source.parse()) if isinstance(n, ast.Name) and n.id == "value")
    assert source.segment(name) == "value"


def test_who_waits_to_parse_does_not_keep_another_from_it() -> None:
    waiting = threading.Event()
    go_on = threading.Event()

    class Slow(Source):
        def parse(self) -> ast.Module:
            waiting.set()
            go_on.wait(60)
            return super().parse()

    slow = threading.Thread(target=lambda: Slow("a = 1").tree, daemon=True)
    slow.start()
    assert waiting.wait(60)
    assert Source("b = 2").tree.body
    assert slow.is_alive()
    go_on.set()
    slow.join()
