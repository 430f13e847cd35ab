"""What the client is shown, in the form that it can show."""

from __future__ import annotations

from pathlib import Path

import pytest
from dry_run_client import answering, ran, shown
from lsp_client import JSON, Client, Start, debounced, edit, span

PULLS: JSON = {
    "textDocument": {"diagnostic": {"dynamicRegistration": False}},
    "workspace": {"diagnostics": {"refreshSupport": True}},
}


def test_a_diagnostic_says_all_it_can(shared: Client, uri: str) -> None:
    leak, note, old = shared.checked(uri, "leak()\nx = note()\nold()\n")
    assert leak["range"] == span(0, 0, 0, 6)
    assert (leak["code"], leak["severity"], leak["source"], leak["message"]) == (
        "DG101",
        1,
        "drygrad",
        "leak was called",
    )
    assert leak["codeDescription"]["href"].endswith("/docs/rules/DG101.md")
    assert leak["data"]["version"] == 1
    assert "relatedInformation" not in leak
    assert note["severity"] == 4
    assert note["relatedInformation"] == [
        {"location": {"uri": uri, "range": span(1, 4, 1, 8)}, "message": "it begins here"}
    ]
    assert old["tags"] == [2]


def test_a_client_that_can_little_gets_little(start: Start, tmp_path: Path) -> None:
    client = start()
    plain = {"relatedInformation": None, "tagSupport": None, "codeDescriptionSupport": None, "dataSupport": None}
    client.initialize(tmp_path, capabilities={"textDocument": {"publishDiagnostics": plain}})
    note, old = client.checked("file:///a.py", "x = note()\nold()\n")
    assert note["message"] == "note was called\nline 1: it begins here"
    assert not {"relatedInformation", "codeDescription", "tags"} & (note.keys() | old.keys())


def test_a_client_with_no_capabilities_at_all(start: Start) -> None:
    client = start()
    client.request("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    client.notify("initialized", {})
    assert len(client.checked("file:///a.py", "leak()\n")) == 1
    assert client.stop() == 0


def test_findings_stay_while_the_text_does_not_parse(shared: Client, uri: str) -> None:
    shared.checked(uri, "x = 1\nleak()\nrisk()\n")
    version = shared.change(uri, edit(0, 0, 0, 0, "y = (\n"), edit(3, 0, 3, 0, "("))
    (kept,) = shared.published(uri, version)
    assert kept["range"] == span(2, 0, 2, 6)
    assert kept["data"]["fixes"] == [], "a fix made for another text"
    version = shared.change(uri, edit(0, 4, 0, 5, "1"), edit(3, 0, 3, 1, ""))
    leak, risk = shared.published(uri, version)
    assert [leak["range"], risk["range"]] == [span(2, 0, 2, 6), span(3, 0, 3, 6)]
    assert leak["data"]["fixes"]


def test_syntax_errors_are_left_to_the_editor(shared: Client, uri: str) -> None:
    assert shared.checked(uri, "def f(:\n") == []


def test_a_text_too_large_is_said_to_be(shared: Client, uri: str) -> None:
    (found,) = shared.checked(uri, "x = 1\n" * 400_000)
    assert "2,400,000 characters" in found["message"]
    assert found["severity"] == 3


def test_only_python_is_checked(shared: Client, uri: str) -> None:
    toml = uri.replace(".py", ".toml")
    shared.open(toml, "leak()\n", language="toml")
    shared.checked(uri, "")
    assert not any(params["uri"] == toml for params in shared.sent("textDocument/publishDiagnostics"))


@pytest.fixture
def puller(start: Start, tmp_path: Path) -> Client:
    (tmp_path / "pyproject.toml").write_text("")
    client = start(settings=debounced(0))
    client.initialize(tmp_path, capabilities=PULLS)
    return client


def test_a_client_that_pulls_is_not_pushed_to(puller: Client) -> None:
    assert puller.capabilities["diagnosticProvider"]["identifier"] == "drygrad"
    puller.open("file:///a.py", "leak()\n")
    report = puller.pull("file:///a.py")
    assert report["kind"] == "full"
    assert [item["code"] for item in report["items"]] == ["DG101"]
    assert puller.sent("textDocument/publishDiagnostics") == []


@pytest.mark.parametrize("workspace", [{}, {"diagnostics": {"refreshSupport": False}}])
def test_a_client_that_cannot_be_asked_to_pull_again_is_pushed_to(
    start: Start, tmp_path: Path, workspace: JSON
) -> None:
    client = start(settings=answering({"debounce": 0, "trusted": True}))
    able = {**PULLS, "workspace": workspace}
    client.initialize(tmp_path, capabilities=able, options={"debounce": 0, "trusted": True})
    assert "diagnosticProvider" not in client.capabilities, "it would show everything twice"
    uri = (tmp_path / "a.py").as_uri()
    assert client.checked(uri, "def f():\n    fault()\n") == []
    ran(client, uri, "f")
    (fault,) = shown(client, uri, bool)
    assert (fault["code"], fault["range"]) == ("DG102", span(1, 4, 1, 11))
    assert client.sent("workspace/diagnostic/refresh") == []
    client.change(uri, edit(1, 4, 1, 11, "pass"))
    assert shown(client, uri, lambda items: not items) == []


def test_an_unchanged_result_is_not_sent_again(puller: Client) -> None:
    uri = "file:///a.py"
    puller.open(uri, "leak()\n")
    first = puller.pull(uri)
    again = puller.pull(uri, first["resultId"])
    assert again == {"kind": "unchanged", "resultId": first["resultId"]}
    puller.change(uri, {"text": "risk()\n"})
    other = puller.pull(uri, first["resultId"])
    assert [item["code"] for item in other["items"]] == ["DG102"]


def test_pulling_what_is_not_open_gives_nothing(puller: Client) -> None:
    assert puller.pull("file:///nowhere.py")["items"] == []


def test_new_settings_ask_the_client_to_pull_again(puller: Client, tmp_path: Path) -> None:
    uri = (tmp_path / "a.py").as_uri()
    puller.open(uri, "leak()\n")
    first = puller.pull(uri)
    (tmp_path / "pyproject.toml").write_text('[tool.drygrad]\nselect = ["DG9"]\n')
    changes = [{"uri": (tmp_path / "pyproject.toml").as_uri(), "type": 2}]
    puller.notify("workspace/didChangeWatchedFiles", {"changes": changes})
    puller.wait(lambda message: message.get("method") == "workspace/diagnostic/refresh")
    assert puller.pull(uri, first["resultId"])["items"] == []
