"""What is found in files that are not open: pulled as a whole, in parts, again only where something has changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from lsp_client import JSON, Client, Pending, ResponseError, Start, debounced

from drygrad.baseline import Baseline, keys_of
from drygrad.settings import Settings
from drygrad.static.engine import Analyzer
from drygrad.static.source import Source

PULLS: JSON = {
    "textDocument": {"diagnostic": {"dynamicRegistration": False}},
    "workspace": {"diagnostics": {"refreshSupport": True}},
}
FAULTY = "import torch\n\n\ndef step(x: torch.Tensor):\n    return torch.nn.functional.softmax(x)\n"
CLEAN = "import torch\n\n\ndef step(x: torch.Tensor):\n    return torch.nn.functional.softmax(x, dim=1)\n"
TWICE = FAULTY + "\n\ndef again(x: torch.Tensor):\n    return torch.nn.functional.softmax(x)\n"


class Workspace:
    """A folder, and a client that asks what is found in it."""

    def __init__(self, folder: Path, client: Client) -> None:
        self.folder, self.client = folder, client
        self._tokens = 0

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def tell(self, *names: str) -> None:
        """Tell the server that files have changed."""
        changes = [{"uri": self.uri(name), "type": 2} for name in names]
        self.client.notify("workspace/didChangeWatchedFiles", {"changes": changes})

    def ask(self, previous: dict[str, str] | None = None, token: str | None = None) -> Pending:
        known = [{"uri": self.uri(name), "value": value} for name, value in (previous or {}).items()]
        params: JSON = {"previousResultIds": known, **({"partialResultToken": token} if token else {})}
        return self.client.begin("workspace/diagnostic", params)

    def named(self, items: list[JSON]) -> dict[str, JSON]:
        """Return reports by the names of their files."""
        root = self.folder.as_uri() + "/"
        return {item["uri"].removeprefix(root): item for item in items}

    def pulled(self, previous: dict[str, str] | None = None) -> dict[str, JSON]:
        return self.named(self.ask(previous).result()["items"])

    def streamed(self, token: str) -> dict[str, JSON]:
        """Return what was told in parts."""
        parts = [part for part in self.client.sent("$/progress") if part["token"] == token]
        return self.named([item for part in parts for item in part["value"]["items"]])


@pytest.fixture
def workspace(start: Start, tmp_path: Path) -> Callable[..., Workspace]:
    def made(*, watches: bool = True, mode: str = "workspace") -> Workspace:
        (tmp_path / ".git").mkdir()
        client = start(settings=debounced(0))
        files = {"didChangeWatchedFiles": {"dynamicRegistration": watches}}
        able = {**PULLS, "workspace": {**PULLS["workspace"], **files}}
        client.initialize(tmp_path, capabilities=able, options={"diagnosticMode": mode, "debounce": 0})
        return Workspace(tmp_path, client)

    return made


def ids(reports: dict[str, JSON]) -> dict[str, str]:
    return {name: report["resultId"] for name, report in reports.items()}


def test_only_who_wants_all_is_offered_all(workspace: Callable[..., Workspace]) -> None:
    client = workspace(mode="openFilesOnly").client
    assert client.capabilities["diagnosticProvider"]["workspaceDiagnostics"] is False
    with pytest.raises(ResponseError):
        client.request("workspace/diagnostic", {"previousResultIds": []})


def test_all_that_a_check_of_the_folder_finds_is_told(workspace: Callable[..., Workspace]) -> None:
    space = workspace(watches=False)
    assert space.client.capabilities["diagnosticProvider"]["workspaceDiagnostics"] is True
    for name in ("a.py", "deep/b.py", "third_party/c.py", "ignored/d.py", "known.py", "quiet.py", ".hidden/e.py"):
        space.write(name, FAULTY)
    space.write("clean.py", CLEAN)
    space.write("broken.py", "def f(:\n")
    space.write(".gitignore", "ignored/\n")
    settings = {"exclude": ["third_party/"], "baseline": "known.json"}
    table = "\n".join(f"{name} = {json.dumps(value)}" for name, value in settings.items())
    space.write("pyproject.toml", f'[tool.drygrad]\n{table}\nper-file-ignores = {{ "quiet.py" = ["DG"] }}\n')
    known = Baseline(space.folder)
    source = Source(FAULTY)
    known.add(space.folder / "known.py", keys_of(source, Analyzer(Settings()).check(source).findings))
    known.save(space.folder / "known.json")
    reports = space.pulled()
    assert sorted(reports) == ["a.py", "deep/b.py"]
    (item,) = reports["a.py"]["items"]
    assert item["range"]["start"]["line"] == 4
    assert item["source"] == "drygrad"

    space.write("deep/b.py", CLEAN)
    space.write("clean.py", FAULTY)
    (space.folder / "a.py").rename(space.folder / "moved.py")
    again = space.pulled({**ids(reports), "clean.py": "of another server"})
    assert {name: len(report["items"]) for name, report in again.items()} == {
        "a.py": 0,
        "deep/b.py": 0,
        "clean.py": 1,
        "moved.py": 1,
    }
    assert space.pulled(ids(again))["clean.py"] == {
        "kind": "unchanged",
        "uri": space.uri("clean.py"),
        "version": None,
        "resultId": again["clean.py"]["resultId"],
    }


def test_the_answer_comes_in_parts_and_waits_for_news(workspace: Callable[..., Workspace]) -> None:
    space = workspace()
    space.write("a.py", FAULTY)
    given_up = space.ask(token="none")
    space.client.notify("$/cancelRequest", {"id": given_up.id})
    with pytest.raises(ResponseError) as refused:
        given_up.result()
    assert refused.value.code == -32800
    assert space.ask(token="one").result()["items"] == []
    told = space.streamed("one")
    assert list(told) == ["a.py"]

    waiting = space.ask(ids(told), token="two")
    space.write("a.py", TWICE)
    space.tell("a.py")
    assert waiting.result()["items"] == []
    assert [len(report["items"]) for report in space.streamed("two").values()] == [2]
    on_disk = space.streamed("two")["a.py"]

    space.client.open(space.uri("a.py"), "leak()\n", version=7)
    opened = space.pulled(ids(space.streamed("two")))["a.py"]
    assert (opened["version"], [item["code"] for item in opened["items"]]) == (7, ["DG101"])
    space.client.close(space.uri("a.py"))
    closed = space.client.pull(space.uri("a.py"), opened["resultId"])
    assert (closed["resultId"], closed["items"]) == (on_disk["resultId"], on_disk["items"])
