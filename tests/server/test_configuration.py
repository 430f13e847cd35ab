"""Settings come from the project and the editor; what is wrong is shown where it stands, once."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dry_run_client import ran
from faulty_analyzer import FaultyAnalyzer
from lsp_client import JSON, Client, Start, params_of, progress_ends

from drygrad.baseline import Baseline, keys_of
from drygrad.lsp.settings import FromEditor
from drygrad.settings import EditorSettings, Settings
from drygrad.static.source import Source

PROJECT = "pyproject.toml"


def codes(items: list[JSON]) -> list[str]:
    return [item["code"] for item in items]


def changed(client: Client, path: Path) -> None:
    client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": path.as_uri(), "type": 2}]})


def wait_for_codes(client: Client, uri: str, wanted: list[str]) -> None:
    def reached(_: JSON) -> bool:
        found = [p["diagnostics"] for p in client.sent("textDocument/publishDiagnostics") if p["uri"] == uri]
        return bool(found) and codes(found[-1]) == wanted

    client.wait(reached)


def answering(value: Any) -> Callable[[JSON], Any]:
    return lambda item: value


def write(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / PROJECT).write_text(text)
    return folder / PROJECT


def test_the_project_decides_on_rules_and_is_watched(client: Client, tmp_path: Path) -> None:
    project = write(tmp_path, '[tool.drygrad]\nignore = ["DG1"]\n')
    uri = (tmp_path / "a.py").as_uri()
    assert client.checked(uri, "leak()\n") == []
    watchers = client.registered["workspace/didChangeWatchedFiles"]["watchers"]
    assert {"globPattern": f"**/{PROJECT}"} in watchers
    project.write_text('[tool.drygrad]\nselect = ["DG"]\n')
    changed(client, project)
    wait_for_codes(client, uri, ["DG101"])
    project.unlink()
    project.with_name("b").write_text("")
    changed(client, project)
    client.checked((tmp_path / "c.py").as_uri(), "")
    wait_for_codes(client, uri, ["DG101"])


def test_per_file_ignores_and_exclude(client: Client, tmp_path: Path) -> None:
    write(tmp_path, '[tool.drygrad]\nper-file-ignores = { "tests/*" = ["DG9"] }\nexclude = ["old/"]\n')
    assert client.checked((tmp_path / "old" / "a.py").as_uri(), "leak()\n") == []
    assert len(client.checked((tmp_path / "tests" / "a.py").as_uri(), "leak()\n")) == 1


def test_known_findings_of_a_baseline_are_not_shown(client: Client, tmp_path: Path) -> None:
    write(tmp_path, '[tool.drygrad]\nbaseline = "known.json"\n')
    text, path = "x = leak()\n", tmp_path / "a.py"
    findings = FaultyAnalyzer(Settings()).check(Source(text)).findings
    baseline = Baseline(tmp_path)
    baseline.add(path, keys_of(Source(text), findings))
    baseline.save(tmp_path / "known.json")
    (new,) = client.checked(path.as_uri(), f"y = leak()\n{text}")
    assert new["range"]["start"]["line"] == 0
    (tmp_path / "known.json").write_text("not a baseline")
    assert len(client.checked((tmp_path / "b.py").as_uri(), text)) == 1


def test_wrong_settings_are_shown_in_the_file_and_go_when_mended(client: Client, tmp_path: Path) -> None:
    project = write(tmp_path, '[project]\nname = "é😀"\n\n[tool.drygrad]\nselct = ["DG1"]\ntarget-torch = 2\n')
    assert len(client.checked((tmp_path / "a.py").as_uri(), "leak()\n")) == 1, "the defaults hold"
    unknown, wrong = client.published(project.as_uri())
    assert unknown["range"]["start"] == {"line": 4, "character": 0}
    assert "selct" in unknown["message"]
    assert wrong["range"]["start"]["line"] == 5
    assert {unknown["severity"], wrong["severity"]} == {2}
    project.write_text('[tool.drygrad]\nselect = ["DG"]\n')
    changed(client, project)

    def cleared(message: JSON) -> bool:
        return params_of(message) == {"uri": project.as_uri(), "diagnostics": []}

    client.wait(cleared)
    assert client.sent("window/showMessage") == []


def test_broken_toml(client: Client, tmp_path: Path) -> None:
    project = write(tmp_path, "[tool.drygrad]\nselect = [\n")
    assert len(client.checked((tmp_path / "a.py").as_uri(), "leak()\n")) == 1
    (broken,) = client.published(project.as_uri())
    assert "broken TOML" in broken["message"]


def test_each_folder_has_its_own(start: Start, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    write(one, "")
    write(two, '[tool.drygrad]\nignore = ["DG101"]\n')
    answers: dict[str | None, JSON] = {one.as_uri(): {"ignore": ["DG102"], "debounce": 0}}

    def answer(item: JSON) -> JSON:
        return answers.get(item.get("scopeUri"), {"debounce": 0})

    client = start(settings=answer)
    client.initialize(folders=[one, two])
    for folder, wanted in ((one, ["DG101"]), (two, ["DG102"])):
        uri = (folder / "a.py").as_uri()
        client.open(uri, "leak()\nrisk()\n")
        wait_for_codes(client, uri, wanted)


def test_settings_from_the_options_and_from_a_client_that_pushes_them(start: Start, tmp_path: Path) -> None:
    client = start()
    client.initialize(tmp_path, capabilities={"workspace": {"configuration": None}}, options={"ignore": ["DG101"]})
    uri = (tmp_path / "a.py").as_uri()
    assert codes(client.checked(uri, "leak()\nrisk()\n")) == ["DG102"]
    client.notify("workspace/didChangeConfiguration", {"settings": {"drygrad": {"ignore": ["DG102"]}}})
    wait_for_codes(client, uri, ["DG101"])


@pytest.mark.parametrize("given", [7, [], {"debounce": -1}, {"select": {"x": 1}}, {"ignore": "DG1"}, {"nonsense": 1}])
def test_wrong_settings_of_the_editor_leave_the_defaults(given: Any) -> None:
    read = FromEditor.read(given)
    assert (read.personal, dict(read.rules)) == (EditorSettings(), {})
    assert read.complaints


@pytest.mark.parametrize("wrong", [{"debounce": "fast", "nonsense": 1}, 7])
def test_wrong_settings_of_the_editor_are_said_once(start: Start, tmp_path: Path, wrong: Any) -> None:
    client = start(settings=answering(wrong))
    client.initialize(tmp_path, options=wrong)
    client.wait(lambda message: message.get("method") == "window/showMessage")
    for _ in range(3):
        client.notify("workspace/didChangeConfiguration", {"settings": None})
    assert len(client.checked((tmp_path / "a.py").as_uri(), "leak()\n")) == 1
    assert client.stop() == 0
    (message,) = client.sent("window/showMessage")
    assert message["type"] == 2
    assert message["message"].startswith("Settings of drygrad: ")


def test_a_client_that_refuses_to_tell_its_settings(start: Start, tmp_path: Path) -> None:
    client = start(settings=answering(None))
    client.initialize(tmp_path, options={"ignore": ["DG101"]})
    uri = (tmp_path / "a.py").as_uri()
    assert client.checked(uri, "leak()\n") == []
    client.notify("workspace/didChangeWorkspaceFolders", {"event": {"added": [], "removed": []}})
    client.published(uri, client.change(uri, {"text": "risk()\nleak()\n"}))
    wait_for_codes(client, uri, ["DG102"])


def test_progress_ends(client: Client, tmp_path: Path) -> None:
    project = write(tmp_path, "")
    for name in "abc":
        client.checked((tmp_path / f"{name}.py").as_uri(), "leak()\n")
    project.write_text('[tool.drygrad]\nignore = ["DG101"]\n')
    changed(client, project)
    client.wait(progress_ends)
    values = [params["value"] for params in client.sent("$/progress")]
    assert [value["kind"] for value in values] == ["begin", "report", "report", "report", "end"]
    assert len({params["token"] for params in client.sent("$/progress")}) == 1


def test_no_progress_for_a_client_without_it(start: Start, tmp_path: Path) -> None:
    client = start()
    client.initialize(tmp_path, capabilities={"window": None})
    uri = (tmp_path / "a.py").as_uri()
    client.checked(uri, "leak()\n")
    changed(client, write(tmp_path, '[tool.drygrad]\nignore = ["DG101"]\n'))
    wait_for_codes(client, uri, [])
    assert client.sent("$/progress") == []


def test_the_log_and_the_trace(client: Client, log_file: Path, uri: str) -> None:
    client.checked(uri, "crash()\n")
    logged = client.wait(lambda message: message.get("method") == "window/logMessage")["params"]
    assert logged["type"] == 1
    assert "could not check" in logged["message"]
    assert "RuntimeError: a bug in a rule" in log_file.read_text()
    assert client.sent("$/logTrace") == []
    client.notify("$/setTrace", {"value": "verbose"})
    client.published(uri, client.change(uri, {"text": "leak()\n"}))
    trace = client.wait(lambda message: message.get("method") == "$/logTrace")["params"]
    assert trace["message"] == f"checked {uri}: 1 finding"
    assert "2" in trace["verbose"]


def test_the_log_goes_to_the_client_alone_with_its_levels(start: Start, tmp_path: Path) -> None:
    given: JSON = {"debounce": 0, "trusted": True}
    client = start(settings=answering(given), stderr=subprocess.PIPE, to_file=False)
    client.initialize(tmp_path)

    def logged(name: str) -> set[int]:
        before, uri = len(client.sent("window/logMessage")), (tmp_path / name).as_uri()
        client.notify("workspace/didChangeConfiguration", {"settings": None})
        client.checked(uri, "crash()\n")
        client.published(uri, client.change(uri, {"text": "def f():\n    note()\n"}))
        ran(client, uri, "f")
        client.close(uri)
        return {message["type"] for message in client.sent("window/logMessage")[before:]}

    assert logged("a.py") == {1, 3}, "errors and infos"
    given["logLevel"] = "debug"
    assert logged("b.py") == {1, 3, 5}, "what a run notes is for debugging"
    given["logLevel"] = "error"
    assert logged("c.py") == {1}
    client.notify("$/cancelRequest", {"id": 1})  # it has been answered
    assert client.stop() == 0
    assert client.process.stderr is not None
    assert client.process.stderr.read() == b""
