"""Hovers and the explain command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dry_run_client import answering
from lsp_client import Client, ResponseError, Start, span


def test_hover_on_a_finding(shared: Client, uri: str) -> None:
    shared.checked(uri, "x = leak()\n")
    hover = shared.hover(uri, 0, 6)
    assert hover["range"] == span(0, 4, 0, 10)
    assert hover["contents"]["kind"] == "markdown"
    title, found = hover["contents"]["value"].split("\n\n")
    assert title.startswith("**[DG101](https://")
    assert title.endswith(")** leak-found")
    assert found == "Finds it."
    assert shared.hover(uri, 0, 1) is None


def test_hover_in_an_editor_without_markdown(start: Start, tmp_path: Path) -> None:
    client = start()
    client.initialize(tmp_path, capabilities={"textDocument": {"hover": {"contentFormat": ["plaintext"]}}})
    client.checked("file:///a.py", "leak()\n")
    contents = client.hover("file:///a.py", 0, 2)["contents"]
    assert contents["kind"] == "plaintext"
    title, _, point, page = contents["value"].splitlines()
    assert (title, point) == ("DG101: leak-found", "Finds it.")
    assert page.startswith("https://")


def test_a_hover_has_the_point_of_a_rule_and_the_page_where_that_is_wanted(start: Start, tmp_path: Path) -> None:
    texts: list[str] = []
    for hover in ("short", "page"):
        client = start(settings=answering({"hover": hover, "debounce": 0}))
        client.initialize(tmp_path, options={"hover": hover, "debounce": 0})
        client.checked("file:///a.py", "x = 1  # noqa: DG904\n")
        texts.append(client.hover("file:///a.py", 0, 17)["contents"]["value"])
    short, page = texts
    assert len(short.split("\n\n")) == 2
    assert "Why is this bad?" in page
    assert short.split("\n\n")[1] in " ".join(page.split())


@pytest.mark.parametrize(
    "comment", ["# drygrad: ignore[DG101, DG904]", "# noqa: E501, DG904", "# drygrad: ignore-file[DG904]"]
)
def test_hover_on_a_suppression(shared: Client, uri: str, comment: str) -> None:
    shared.checked(uri, f"x = 1  {comment}\n")
    column = 7 + comment.index("DG904")
    hover = shared.hover(uri, 0, column + 2)
    assert hover["range"] == span(0, column, 0, column + 5)
    assert hover["contents"]["value"].splitlines()[0].endswith("** unused-suppression")
    assert shared.hover(uri, 0, 8) is None


def test_no_hover_on_a_code_elsewhere(shared: Client, uri: str) -> None:
    shared.checked(uri, "x = 'DG904'  # about DG904\n")
    assert shared.hover(uri, 0, 7) is None
    assert shared.hover(uri, 0, 23) is None
    assert shared.hover("file:///not/open.py", 0, 0) is None


def test_explain(shared: Client) -> None:
    for argument in ({"code": "DG904"}, "dg904", "unused-suppression"):
        text = shared.request("workspace/executeCommand", {"command": "drygrad.explain", "arguments": [argument]})
        assert "## What it does" in text
    wrong: list[Any] = [[{"code": "DG000"}], [{}], [7], [], ["DG904", "DG904"], None]
    for arguments in wrong:
        with pytest.raises(ResponseError) as caught:
            shared.request("workspace/executeCommand", {"command": "drygrad.explain", "arguments": arguments})
        assert caught.value.code == -32602
    with pytest.raises(ResponseError) as caught:
        shared.request("workspace/executeCommand", {"command": "drygrad.unknown"})
    assert caught.value.code == -32602
