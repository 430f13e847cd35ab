"""The failures that users of language servers report most; the numbers are those of the reliability list."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
from lsp_client import JSON, TIMEOUT, Client, Start, debounced, edit, params_of, progress_ends, span
from process_tree import SOON, all_end

URI = "file:///nowhere/a.py"


def children_of(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in found.read_text().split()] if found.exists() else []


def close_pipe(client: Client) -> None:
    """Close the server's stdin as a client that died would, and see it end."""
    stdin = client.process.stdin
    assert stdin is not None
    stdin.close()
    client.process.wait(TIMEOUT)


def test_01_nothing_outlives_the_client(start: Start) -> None:
    client = start(env={"SLOW": "3600"})
    client.initialize()
    client.open(URI, "slow()\n")
    client.hover(URI, 0, 0)
    assert children_of(client.process.pid) == []
    close_pipe(client)


def test_01_a_killed_server_leaves_nothing(client: Client) -> None:
    client.checked(URI, "leak()\n")
    children = children_of(client.process.pid)
    client.process.send_signal(signal.SIGKILL)
    client.process.wait(TIMEOUT)
    assert all_end(children, SOON)


@pytest.mark.parametrize("busy", [False, True])
def test_02_the_server_leaves_when_told(start: Start, busy: bool) -> None:
    client = start(env={"SLOW": "3600"})
    client.initialize()
    waiting = None
    if busy:
        client.open(URI, "slow()\n")
        waiting = client.begin("textDocument/codeAction", params_of_fix_all())
        client.hover(URI, 0, 0)
    assert client.stop() == 0
    if waiting is not None:
        assert waiting.answers.get(timeout=TIMEOUT)["error"]["code"] in (-32800, 0)


def params_of_fix_all() -> JSON:
    return {
        "textDocument": {"uri": URI},
        "range": span(0, 0, 0, 0),
        "context": {"diagnostics": [], "only": ["source.fixAll"]},
    }


def test_02_end_of_input_without_exit_is_a_failure(client: Client) -> None:
    close_pipe(client)
    assert client.process.returncode == 1


def test_02_exit_without_shutdown_is_a_failure(client: Client) -> None:
    client.notify("exit")
    assert client.process.wait(TIMEOUT) == 1


def text_of(numbers: list[int]) -> str:
    return "".join("leak()\n" if n % 3 == 0 else "note()\n" if n % 3 == 1 else "x = 1\n" for n in numbers)


def test_03_no_diagnostics_of_an_older_text(start: Start) -> None:
    client = start(settings=debounced(5), env={"SLOW": "0.02"})
    client.initialize(options={"debounce": 5})
    random_numbers = random.Random(3)
    numbers = [0, 1, 2]
    truth: dict[int, str] = {}
    client.open(URI, text_of(numbers))
    truth[1] = text_of(numbers)
    for _ in range(200):
        line = random_numbers.randrange(len(numbers) + 1)
        numbers.insert(line, random_numbers.randrange(9))
        new = text_of(numbers[line : line + 1])
        if random_numbers.random() < 0.3:
            new, numbers[line] = "slow()\n", 2
        version = client.change(URI, edit(line, 0, line, 0, new))
        truth[version] = text_of(numbers)
        time.sleep(random_numbers.random() * 0.02)
    client.published(URI, max(truth))
    versions = [params["version"] for params in client.sent("textDocument/publishDiagnostics")]
    assert versions == sorted(set(versions)), "versions went back, or came twice"
    for params in client.sent("textDocument/publishDiagnostics"):
        lines = truth[params["version"]].splitlines()
        expected = [(n, line) for n, line in enumerate(lines) if line != "x = 1"]
        found = [(d["range"]["start"]["line"], d["message"].split()[0] + "()") for d in params["diagnostics"]]
        assert found == expected


@pytest.mark.parametrize("delay", [0.0, 0.05])
def test_04_a_closed_text_stays_silent(start: Start, delay: float) -> None:
    client = start(settings=debounced(20), env={"SLOW": "0.2"})
    client.initialize(options={"debounce": 20})
    client.checked(URI, "leak()\n")
    client.change(URI, {"text": "slow()\nrisk()\n"})
    time.sleep(delay)
    client.close(URI)
    client.open("file:///nowhere/renamed.py", "slow()\nrisk()\n")
    client.published("file:///nowhere/renamed.py", 1)
    time.sleep(0.5)
    published = [params for params in client.sent("textDocument/publishDiagnostics") if params["uri"] == URI]
    assert published[-1]["diagnostics"] == []
    assert all(params.get("version") in (1, None) for params in published)


def test_04_a_file_deleted_while_open_is_still_checked(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("leak()\n")
    client.checked(path.as_uri(), "leak()\n")
    path.unlink()
    assert client.published(path.as_uri(), client.change(path.as_uri(), {"text": "risk()\n"}))


def resident_mib(client: Client) -> float:
    status = Path(f"/proc/{client.process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024


def test_05_memory_does_not_grow(client: Client) -> None:
    def work(count: int) -> None:
        for n in range(count):
            version = client.change(URI, {"text": f"leak()\nx = {n}\n" + "note()\n" * 50})
            other = f"file:///nowhere/{n % 7}.py"
            client.open(other, "leak()\n")
            client.close(other)
            if n % 20 == 0:
                client.published(URI, version)
                client.received.clear()

    client.checked(URI, "leak()\n")
    work(300)
    before = resident_mib(client)
    work(300)
    assert resident_mib(client) - before < 8.0


def test_06_a_storm_of_file_events_costs_one_check(client: Client, tmp_path: Path) -> None:
    uri = (tmp_path / "a.py").as_uri()
    client.checked(uri, "leak()\n")
    (tmp_path / "pyproject.toml").write_text('[tool.drygrad]\nignore = ["DG102"]\n')
    for n in range(2000):
        (tmp_path / f"module_{n}.py").write_text("leak()\n")
    changes = [{"uri": path.as_uri(), "type": 2} for path in tmp_path.iterdir()]
    client.notify("workspace/didChangeWatchedFiles", {"changes": changes})
    client.wait(progress_ends)
    client.hover(uri, 0, 0)
    published = client.sent("textDocument/publishDiagnostics")
    assert [params["uri"] for params in published] == [uri, uri]


def test_07_a_burst_is_answered_once_it_pauses(start: Start, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    client = start(env={"GATE": str(gate)}, settings=debounced(10))
    client.initialize(options={"debounce": 10})
    client.checked(URI, "x = 1\n")
    before, version = len(client.sent("textDocument/publishDiagnostics")), 0
    for n in range(100):
        version = client.change(URI, {"text": f"slow()\nleak()\nx = {n}\n"})
        if n % 10 == 9:
            client.hover(URI, 1, 1)  # it does not wait for the analysis, which waits for the gate
        time.sleep(0.005)
    gate.touch()
    client.published(URI, version)
    assert len(client.sent("textDocument/publishDiagnostics")) - before <= 3


def test_08_a_cancelled_request_is_answered_and_the_next_works(start: Start, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    client = start(env={"GATE": str(gate)}, settings=debounced(0))
    client.initialize(options={"debounce": 0})
    client.open(URI, "slow()\nleak()\n")
    for delay in (0.0, 0.05, 0.5):
        pending = client.begin("textDocument/codeAction", params_of_fix_all())
        time.sleep(delay)
        client.notify("$/cancelRequest", {"id": pending.id})
        assert pending.answers.get(timeout=TIMEOUT)["error"]["code"] == -32800
    gate.touch()
    client.change(URI, {"text": "leak()\n"})
    (action,) = client.request("textDocument/codeAction", params_of_fix_all())
    assert action["edit"]


def test_08_a_cancelled_pull_does_not_disturb_the_others(start: Start) -> None:
    client = start(env={"SLOW": "0.5"})
    client.initialize(
        capabilities={"textDocument": {"diagnostic": {}}, "workspace": {"diagnostics": {"refreshSupport": True}}}
    )
    client.open(URI, "slow()\nleak()\n")
    params = {"textDocument": {"uri": URI}}
    pulls = [client.begin("textDocument/diagnostic", params) for _ in range(70)]
    for pull in pulls[:-1]:
        client.notify("$/cancelRequest", {"id": pull.id})
    assert [item["code"] for item in pulls[-1].result()["items"]] == ["DG101"]
    assert {pull.answers.get(timeout=TIMEOUT)["error"]["code"] for pull in pulls[:-1]} == {-32800}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_09_columns_in_the_clients_units(start: Start, encoding: str) -> None:
    client = start()
    client.initialize(encoding=encoding)
    (found,) = client.checked(URI, 'x = "é中😀e\u0301\t"; leak()\n')
    column = {"utf-8": 21, "utf-16": 15, "utf-32": 14}[encoding]
    assert found["range"] == span(0, column, 0, column + 6)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("text", ["\f", "#\v\x1c\x1d\x1e", "# \x85\u2028\u2029", "'''\f\u2028'''"])
def test_10_lines_end_where_python_ends_them(shared: Client, uri: str, text: str, end: str) -> None:
    (found,) = shared.checked(uri, f"{text}{end}{end}leak()")
    assert found["range"] == span(2, 0, 2, 6)
    version = shared.change(uri, edit(1, 0, 1, 0, f"x = 1{end}"))
    (found,) = shared.published(uri, version)
    assert found["range"] == span(3, 0, 3, 6)


URIS = [
    "file:///c%3A/Users/me/train.py",
    "file:///C:/Users/me/train.py",
    "file:///c:/Users/me/a%20b/train.py",
    "file:///c:/Users/me/a b/train.py",
    "file://server/share/train.py",
    "file:///home/m%C3%A9/tr%E4%B8%AD.py",
    "file:///home/mé/tr中.py",
    "file:///home/me/%2525.py",
    "file:///home/me/a%23b.py",
    "file:///home/me/../me/./train.py",
    "file:///nowhere//double.py",
    "file:/one/slash.py",
    "FILE:///upper/case.py",
    "untitled:Untitled-1",
    "untitled:/home/me/new.py",
    "vscode-notebook-cell:/home/me/n.ipynb#W0sZmlsZQ%3D%3D",
    "vscode-remote://ssh-remote%2Bhost/home/me/train.py",
    "git:/home/me/train.py?%7B%22ref%22%3A%22~%22%7D",
    "vscode-vfs://github/owner/repo/train.py",
    "zipfile:///a.zip::b.py",
    "x",
]


@pytest.mark.parametrize("uri", URIS)
def test_11_results_are_published_under_the_clients_uri(shared: Client, uri: str) -> None:
    (found,) = shared.checked(uri, "leak()\n")
    shared.published(uri, shared.change(uri, edit(0, 0, 0, 0, "\n")))
    assert shared.hover(uri, 1, 0) is not None
    assert found["data"]["fixes"][0]["changes"][0]["uri"] == uri
    shared.close(uri)
    shared.wait(lambda message: params_of(message) == {"uri": uri, "diagnostics": []})


def test_12_what_is_printed_stays_off_the_wire(start: Start) -> None:
    client = start()
    client.initialize()
    client.checked(URI, "speak()\nleak()\n")
    assert client.hover(URI, 1, 0) is not None
    assert client.stop() == 0


def test_13_a_child_process_cannot_read_the_wire(start: Start) -> None:
    client = start()
    client.initialize()
    descriptors = Path(f"/proc/{client.process.pid}/fd")
    if not descriptors.exists():
        pytest.skip("needs /proc")
    targets = {name: str((descriptors / name).readlink()) for name in ("0", "1", "2")}
    assert targets["0"] == os.devnull
    assert targets["1"] == targets["2"]


def test_14_the_buffer_is_checked_and_not_the_disk(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("risk()\n")
    assert [item["code"] for item in client.checked(path.as_uri(), "leak()\n")] == ["DG101"]
    path.write_text("note()\n")
    client.notify("textDocument/didSave", {"textDocument": {"uri": path.as_uri()}})
    found = client.published(path.as_uri(), client.change(path.as_uri(), edit(0, 0, 0, 0, "\n")))
    assert [item["code"] for item in found] == ["DG101"]


@pytest.mark.parametrize("options", [{"folders": []}, {"folders": [Path("/does/not/exist")]}, {"root": Path("/proc")}])
def test_16_strange_workspaces_do_not_end_the_server(start: Start, options: JSON) -> None:
    client = start()
    client.initialize(**options)
    client.notify(
        "workspace/didChangeWorkspaceFolders",
        {
            "event": {
                "added": [{"uri": "vscode-remote://x/y", "name": "y"}],
                "removed": [{"uri": "file:///not/there", "name": "z"}],
            }
        },
    )
    assert client.checked("untitled:Untitled-1", "leak()\n")
    assert client.stop() == 0
    assert client.sent("window/showMessage") == []


def test_17_a_fix_names_the_version_it_was_made_for(client: Client) -> None:
    found = client.checked(URI, "leak()\nleak()\n")
    first, *_ = client.actions(URI, found[:1])
    assert first["edit"]["documentChanges"][0]["textDocument"] == {"uri": URI, "version": 1}
    client.change(URI, edit(0, 0, 0, 0, "# new\n"))
    assert client.actions(URI, found[:1]) == []
    first, *_ = client.actions(URI, found[1:])
    assert first["edit"]["documentChanges"][0]["textDocument"] == {"uri": URI, "version": 2}


def test_18_notebook_cells_keep_their_findings_apart(client: Client) -> None:
    cells = ["vscode-notebook-cell:/n.ipynb#a", "vscode-notebook-cell:/n.ipynb#b"]
    documents = [{"uri": uri, "languageId": "python", "version": 1, "text": "!ls\nleak()"} for uri in cells]
    notebook = {"uri": "file:///n.ipynb", "notebookType": "jupyter-notebook", "version": 1}
    notebook |= {"cells": [{"kind": 2, "document": uri} for uri in cells]}
    client.notify("notebookDocument/didOpen", {"notebookDocument": notebook, "cellTextDocuments": documents})
    for uri in cells:
        (found,) = client.published(uri, 1)
        assert found["range"] == span(1, 0, 1, 6)


def test_19_a_bug_does_not_shout_and_is_logged(client: Client, log_file: Path) -> None:
    for n in range(20):
        client.open(f"file:///nowhere/{n}.py", "crash()\n")
        client.published(f"file:///nowhere/{n}.py", 1)
    assert len(client.sent("window/showMessage")) == 1
    assert log_file.read_text().count("RuntimeError: a bug in a rule") >= 20
    (found,) = client.published("file:///nowhere/3.py")
    assert "could not check" in found["message"]
    assert client.checked(URI, "leak()\n")


def test_20_the_framework_has_what_the_base_builds_on() -> None:
    """Everything of pygls that is overridden or reached into is still there, under the same name."""
    from pygls.protocol import LanguageServerProtocol  # noqa: PLC0415
    from pygls.workspace import TextDocument, Workspace  # noqa: PLC0415

    from drygrad.lsp.base.documents import Document, Documents  # noqa: PLC0415
    from drygrad.lsp.base.protocol import Protocol  # noqa: PLC0415

    own = {"receive", "_structured", "_refuse", "_refusal", "_use_own_documents", "_handlers"}
    for ours, theirs, new in (
        (Protocol, LanguageServerProtocol, own),
        (Document, TextDocument, {"snapshot", "_snapshot"}),
        (Documents, Workspace, {"find"}),
    ):
        names = {name for name in vars(ours) if not name.startswith("__")}
        assert names - new <= set(dir(theirs))


def test_23_home_may_be_read_only_or_missing(start: Start) -> None:
    client = start(env={"HOME": "/proc/nowhere", "XDG_CACHE_HOME": "/proc/nowhere", "TMPDIR": "/proc/nowhere"})
    client.initialize()
    assert client.checked(URI, "leak()\n")
    assert client.stop() == 0


@pytest.mark.parametrize(
    "text",
    [
        "x = '" + "a" * 5_000 + "'; leak()\n",
        "(" * 500 + ")" * 500,
        "x = " + "-" * 3_000 + "1\n",
        "\x00leak()",
        "#" * 10_000_000,
    ],
)
def test_26_27_extreme_texts(shared: Client, uri: str, text: str) -> None:
    shared.checked(uri, text)
    version = shared.change(uri, edit(0, 0, 0, 0, "\n"))
    shared.published(uri, version)
    shared.close(uri)


def test_28_a_locale_that_is_not_utf8(start: Start, log_file: Path) -> None:
    client = start(
        env={"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    )
    client.initialize()
    uri = "file:///home/mé/中😀.py"
    assert client.checked(uri, "x = '中😀'; crash()\n")
    assert "中😀" in log_file.read_text(encoding="utf-8")
    assert client.stop() == 0
