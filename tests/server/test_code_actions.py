"""Fixes: offered for the text they were made for, applied where they belong, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lsp_client import JSON, Client, Start, apply_edits, debounced, edit

NO_DATA: JSON = {"textDocument": {"publishDiagnostics": {"dataSupport": None}}}
RESOLVES: JSON = {"textDocument": {"codeAction": {"dataSupport": True, "resolveSupport": {"properties": ["edit"]}}}}


def titled(actions: list[JSON], title: str) -> JSON:
    (action,) = [action for action in actions if action["title"] == title]
    return action


def fixed(action: JSON, text: str, uri: str, version: int = 1) -> str:
    (change,) = action["edit"]["documentChanges"]
    assert change["textDocument"] == {"uri": uri, "version": version}
    return apply_edits(text, change["edits"])


def test_a_safe_fix(shared: Client, uri: str) -> None:
    text = 's = "😀"; leak()\n'
    found = shared.checked(uri, text)
    action = titled(shared.actions(uri, found), "Keep it")
    assert action["kind"] == "quickfix"
    assert action["isPreferred"] is True
    assert action["diagnostics"][0]["code"] == "DG101"
    assert fixed(action, text, uri) == 's = "😀"; keep()\n'


def test_an_unsafe_fix_says_so(shared: Client, uri: str) -> None:
    found = shared.checked(uri, "risk()\n")
    action = titled(shared.actions(uri, found), "Drop it (unsafe)")
    assert action["isPreferred"] is True, "it is the only one"
    found = shared.published(uri, shared.change(uri, {"text": "pair()\n"}))
    safe, unsafe, _ = shared.actions(uri, found)
    assert (safe["title"], safe.get("isPreferred")) == ("Keep it", True)
    assert (unsafe["title"], unsafe.get("isPreferred")) == ("Drop it (unsafe)", None)


def test_all_of_a_kind(shared: Client, uri: str) -> None:
    text = "leak()\nrisk()\nf(leak(), risk())\n"
    found = shared.checked(uri, text)
    actions = shared.actions(uri, found)
    assert fixed(titled(actions, "Fix all DG101 in this file"), text, uri) == "keep()\nrisk()\nf(keep(), risk())\n"
    unsafe = titled(actions, "Fix all DG102 in this file (unsafe)")
    assert fixed(unsafe, text, uri) == "leak()\ndrop()\nf(leak(), drop())\n"


def test_one_finding_is_not_all_of_a_kind(shared: Client, uri: str) -> None:
    found = shared.checked(uri, "leak()\nnote()\nnote()\n")
    assert not [a for a in shared.actions(uri, found) if a["title"].startswith("Fix all")]


def test_ignoring_on_this_line(shared: Client, uri: str) -> None:
    text = "x = leak()\nnote(\n)\n"
    leak, note = shared.checked(uri, text)
    action = titled(shared.actions(uri, [leak]), "Ignore DG101 on this line")
    assert fixed(action, text, uri) == "x = leak()  # drygrad: ignore[DG101]\nnote(\n)\n"
    assert not action.get("isPreferred")
    version = shared.change(uri, {"text": fixed(action, text, uri)})
    assert [item["code"] for item in shared.published(uri, version)] == ["DG104"]
    assert titled(shared.actions(uri, [{**note, "data": {"version": version}}]), "Ignore DG104 on this line")


def test_diagnostics_of_another_text_give_no_action(shared: Client, uri: str) -> None:
    found = shared.checked(uri, "leak()\n")
    version = shared.change(uri, edit(0, 0, 0, 0, "\n"))
    shared.published(uri, version)
    assert shared.actions(uri, found) == []


def test_what_stands_where_it_stood_is_fixed_before_the_editor_hears_of_it(start: Start, tmp_path: Path) -> None:
    client = start()
    client.initialize(tmp_path, options={"debounce": 60_000})
    uri, text = "file:///a.py", "leak()\n"
    found = client.checked(uri, text)
    client.change(uri, edit(1, 0, 1, 0, "x = 1\n"))
    action = titled(client.actions(uri, found), "Keep it")
    assert fixed(action, text + "x = 1\n", uri, version=2) == "keep()\nx = 1\n"


def test_diagnostics_of_other_tools_give_no_action(shared: Client, uri: str) -> None:
    (found,) = shared.checked(uri, "leak()\n")
    assert shared.actions(uri, [{**found, "source": "other"}]) == []
    strange: list[Any] = [None, [], "x", {"version": 1, "fixes": [{"title": 3}]}, {"version": 1, "fixes": [7]}]
    for data in strange:
        titles = [a["title"] for a in shared.actions(uri, [{**found, "data": data}])]
        assert "Ignore DG101 on this line" in titles or data in ([], "x")


def test_a_client_that_drops_nulls_has_fixes_too(shared: Client, uri: str) -> None:
    (found,) = shared.checked(uri, "risk()\n")
    found["data"]["fixes"] = [{key: v for key, v in fix.items() if v is not None} for fix in found["data"]["fixes"]]
    assert "verified" not in found["data"]["fixes"][0], "as Neovim sends it back"
    assert fixed(titled(shared.actions(uri, [found]), "Drop it (unsafe)"), "risk()\n", uri) == "drop()\n"


def test_a_client_that_drops_the_data_has_fixes_too(start: Start, tmp_path: Path) -> None:
    client = start(settings=debounced(0))
    client.initialize(tmp_path, capabilities=NO_DATA)
    uri = "file:///a.py"
    found = [{k: v for k, v in item.items() if k != "data"} for item in client.checked(uri, "leak()\n")]
    assert fixed(titled(client.actions(uri, found), "Keep it"), "leak()\n", uri) == "keep()\n"
    client.published(uri, client.change(uri, edit(0, 0, 0, 0, "\n")))
    assert client.actions(uri, found) == [], "the finding has moved"


def test_a_client_without_document_changes(start: Start, tmp_path: Path) -> None:
    client = start()
    client.initialize(tmp_path, capabilities={"workspace": {"workspaceEdit": None}})
    found = client.checked("file:///a.py", "leak()\n")
    action = titled(client.actions("file:///a.py", found), "Keep it")
    assert apply_edits("leak()\n", action["edit"]["changes"]["file:///a.py"]) == "keep()\n"


def test_fix_all_takes_the_safe_ones_and_nothing_the_second_time(shared: Client, uri: str) -> None:
    text = "leak()\r\nx = [leak(), risk()]  # é\r\n\r\npair()"
    shared.checked(uri, text)
    (action,) = shared.actions(uri, [], ["source.fixAll"])
    assert action["kind"] == "source.fixAll.drygrad"
    after = fixed(action, text, uri)
    assert after == "keep()\r\nx = [keep(), risk()]  # é\r\n\r\nkeep()"
    shared.published(uri, shared.change(uri, {"text": after}))
    assert shared.actions(uri, [], ["source.fixAll.drygrad"]) == []


def test_fix_all_is_for_the_text_that_was_typed_last(start: Start, tmp_path: Path) -> None:
    client = start()
    client.initialize(tmp_path, options={"debounce": 10_000})
    uri = "file:///a.py"
    client.checked(uri, "x = 1\n")
    version = client.change(uri, {"text": "leak()\n"})
    (action,) = client.actions(uri, [], ["source"])
    assert fixed(action, "leak()\n", uri, version) == "keep()\n"


def test_fix_all_only_where_it_is_asked_for(shared: Client, uri: str) -> None:
    found = shared.checked(uri, "leak()\n")
    kinds = {action["kind"] for action in shared.actions(uri, found)}
    assert kinds == {"quickfix"}
    assert shared.actions(uri, found, ["refactor", "source.organizeImports", "source.fixAll.other"]) == []
    assert {action["kind"] for action in shared.actions(uri, found, ["quickfix"])} == {"quickfix"}


def test_fix_all_is_computed_when_chosen_if_the_client_can_wait(start: Start, tmp_path: Path) -> None:
    client = start()
    client.initialize(tmp_path, capabilities=RESOLVES)
    uri = "file:///a.py"
    client.checked(uri, "leak()\n")
    (action,) = client.actions(uri, [], ["source.fixAll"])
    assert "edit" not in action
    resolved = client.request("codeAction/resolve", action)
    assert fixed(resolved, "leak()\n", uri) == "keep()\n"
    assert client.request("codeAction/resolve", {"title": "x", "data": [1]}) == {"title": "x", "data": [1]}


def test_a_text_that_does_not_parse_is_not_fixed(shared: Client, uri: str) -> None:
    shared.checked(uri, "leak()\n(\n")
    assert shared.actions(uri, [], ["source.fixAll"]) == []
