"""What runs and programs say is shown in a hover, and means nothing there."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from drygrad.dryrun.result import Input
from drygrad.lsp.markdown import code, escaped
from drygrad.lsp.observed import Fact

SPECIAL = st.text(alphabet="a[]()!`<>\\:/#*_ \n\r&\"'x.", max_size=40)
MEANINGLESS = {"text", "softbreak", "em_open", "em_close", "strong_open", "strong_close", "text_special"}
PICTURE = "![x](https://example.org/?q=secret)"


def inline(markdown: str) -> list[Token]:
    tokens = MarkdownIt().parse(f"- input {markdown}")
    return [child for token in tokens for child in token.children or ()]


@given(SPECIAL)
@example(PICTURE)
@example("![x][1]\n\n[1]: https://example.org/secret")
@example("<img src=https://example.org>")
@example("\\![x](y)")
def test_nothing_in_an_escaped_text_is_a_picture_a_link_or_html(text: str) -> None:
    assert {token.type for token in inline(escaped(text))} <= MEANINGLESS


@given(SPECIAL)
def test_code_is_one_span_whatever_stands_in_it(text: str) -> None:
    spans = [token for token in inline(f"{code(text)}: after") if token.type != "text"]
    if text.strip():
        assert [token.type for token in spans] == ["code_inline"]


@pytest.mark.parametrize("text", ["float32 [8, 10] on cuda:0, values from -1.5 to 2", "Rater with 32,165 parameters"])
def test_what_is_harmless_reads_as_it_was_written(text: str) -> None:
    assert escaped(text) == text


def test_a_fact_is_escaped_for_readers_of_markdown_only() -> None:
    given = Input("x", PICTURE, "call")
    fact = Fact("input ", given.name, f": {given.value}, from {given.source}")
    assert fact.text(markdown=False) == f"input x: {PICTURE}, from call"
    assert {token.type for token in inline(fact.text(markdown=True))} == {"text", "code_inline"}
