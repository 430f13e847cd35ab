"""A language client for tests and benchmarks: one process, its wire, and everything that it said."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from forked import Forks

JSON = dict[str, Any]

TIMEOUT = 180.0
"""Generous: the machine may be busy with other work."""

CAPABILITIES: JSON = {
    "general": {"positionEncodings": ["utf-16"]},
    "textDocument": {
        "publishDiagnostics": {
            "relatedInformation": True,
            "tagSupport": {"valueSet": [1, 2]},
            "versionSupport": True,
            "codeDescriptionSupport": True,
            "dataSupport": True,
        },
        "codeAction": {
            "codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["quickfix", "source.fixAll"]}},
            "isPreferredSupport": True,
        },
        "codeLens": {},
        "hover": {"contentFormat": ["markdown", "plaintext"]},
    },
    "notebookDocument": {"synchronization": {}},
    "window": {"workDoneProgress": True},
    "workspace": {
        "configuration": True,
        "workspaceFolders": True,
        "workspaceEdit": {"documentChanges": True},
        "didChangeConfiguration": {"dynamicRegistration": True},
        "didChangeWatchedFiles": {"dynamicRegistration": True},
        "codeLens": {"refreshSupport": True},
        "inlayHint": {"refreshSupport": True},
    },
}
"""What a modern editor says of itself."""


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> JSON:
    """Return nested settings with changes; None takes a key out."""
    result = dict(base)
    for key, value in changes.items():
        old = result.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        result[key] = merged(cast("JSON", old), cast("JSON", value)) if both else value
    return {key: value for key, value in result.items() if value is not None}


class ResponseError(Exception):
    """The server answered a request with an error."""

    def __init__(self, error: JSON) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code: int = error["code"]


class Pending:
    """A request that waits for its answer."""

    def __init__(self, msg_id: int) -> None:
        self.id = msg_id
        self.answers: queue.Queue[JSON] = queue.Queue()

    def result(self, timeout: float = TIMEOUT) -> Any:
        """Return the answer; an error is raised."""
        answer = self.answers.get(timeout=timeout)
        if "error" in answer:
            raise ResponseError(answer["error"])
        return answer.get("result")


class Client:
    """Starts a server, as a process or in a fork of one, and talks to it over stdio."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        settings: Callable[[JSON], Any] = lambda item: None,
        stderr: int | None = None,
        forks: Forks | None = None,
    ) -> None:
        self.received: list[tuple[float, JSON]] = []
        self.registered: dict[str, JSON] = {}
        self.versions: dict[str, int] = {}
        self.capabilities: JSON = {}
        self.settings = settings
        self.answers_progress = True
        self.replies: dict[str, Any] = {"workspace/applyEdit": {"applied": True}}
        self._pending: dict[Any, Pending] = {}
        self._next_id = 0
        self._writing = threading.Lock()
        self._news = threading.Condition()
        self.started = time.perf_counter()
        self.process = forks.start(command[1:], env or {}) if forks else _started(command, env or {}, stderr)
        threading.Thread(target=self._read, daemon=True).start()

    def send(self, message: Any) -> None:
        """Send a message as it is."""
        self.send_bytes(json.dumps(message).encode())

    def send_bytes(self, body: bytes) -> None:
        """Send a message's body, which may be no message at all."""
        stdin = self.process.stdin
        assert stdin is not None
        with self._writing:
            stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
            stdin.flush()

    def notify(self, method: str, params: Any = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def begin(self, method: str, params: Any = None) -> Pending:
        """Send a request without waiting for its answer."""
        self._next_id += 1
        pending = self._pending[self._next_id] = Pending(self._next_id)
        self.send({"jsonrpc": "2.0", "id": pending.id, "method": method, "params": params})
        return pending

    def request(self, method: str, params: Any = None, timeout: float = TIMEOUT) -> Any:
        return self.begin(method, params).result(timeout)

    def _read(self) -> None:
        stdout = self.process.stdout
        assert stdout is not None
        length = 0
        while header := stdout.readline():
            if header.lower().startswith(b"content-length:"):
                length = int(header.split(b":")[1])
            elif not header.strip():
                self._receive(json.loads(stdout.read(length)))
        gone = {"error": {"code": 0, "message": "the server is gone"}}
        for pending in list(self._pending.values()):
            pending.answers.put(gone)
        with self._news:
            self._news.notify_all()

    def _receive(self, message: JSON) -> None:
        with self._news:
            self.received.append((time.perf_counter(), message))
            self._news.notify_all()
        if "method" in message:
            if "id" in message:
                self._answer(message)
        elif (pending := self._pending.pop(message.get("id"), None)) is not None:
            pending.answers.put(message)

    def _answer(self, message: JSON) -> None:
        params = params_of(message)
        result: Any = self.replies.get(message["method"])
        if message["method"] == "workspace/configuration":
            result = [self.settings(item) for item in params["items"]]
        elif message["method"] == "client/registerCapability":
            self.registered |= {r["method"]: r.get("registerOptions") for r in params["registrations"]}
        elif message["method"] == "window/workDoneProgress/create" and not self.answers_progress:
            return
        with contextlib.suppress(OSError, ValueError):  # the server, or our end of its wire, is gone
            self.send({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def wait(self, wanted: Callable[[JSON], Any], *, since: float = 0.0, timeout: float = TIMEOUT) -> JSON:
        """Return the first message received since then that is wanted."""
        return self.wait_timed(wanted, since=since, timeout=timeout)[1]

    def wait_timed(
        self, wanted: Callable[[JSON], Any], *, since: float = 0.0, timeout: float = TIMEOUT
    ) -> tuple[float, JSON]:
        """Return also when it came."""
        deadline, seen = time.monotonic() + timeout, 0
        with self._news:
            while True:
                for at, message in self.received[seen:]:
                    if at >= since and wanted(message):
                        return at, message
                seen = len(self.received)
                if time.monotonic() > deadline:
                    raise TimeoutError("no such message")
                self._news.wait(0.5)

    def sent(self, method: str) -> list[JSON]:
        """Return the parameters of all that the server sent of a kind."""
        return [message.get("params") or {} for _, message in list(self.received) if message.get("method") == method]

    def initialize(
        self,
        root: Path | None = None,
        *,
        capabilities: Mapping[str, Any] | None = None,
        folders: Sequence[Path] | None = None,
        options: Any = None,
        encoding: str = "utf-16",
    ) -> JSON:
        """Say who we are; ``capabilities`` changes what is said of a modern editor."""
        able = merged(CAPABILITIES, {"general": {"positionEncodings": [encoding]}})
        folders = folders if folders is not None else [root] if root else []
        params = {
            "processId": os.getpid(),
            "rootUri": root.as_uri() if root else None,
            "workspaceFolders": [{"uri": folder.as_uri(), "name": folder.name} for folder in folders],
            "initializationOptions": options,
            "capabilities": merged(able, capabilities or {}),
        }
        result = self.request("initialize", params)
        self.capabilities = result["capabilities"]
        self.notify("initialized", {})
        return result

    def open(self, uri: str, text: str, language: str = "python", version: int = 1) -> None:
        self.versions[uri] = version
        item = {"uri": uri, "languageId": language, "version": version, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": item})

    def change(self, uri: str, *changes: JSON) -> int:
        """Send changes; a bare ``{"text": ...}`` replaces the whole."""
        self.versions[uri] += 1
        identifier = {"uri": uri, "version": self.versions[uri]}
        self.notify("textDocument/didChange", {"textDocument": identifier, "contentChanges": list(changes)})
        return self.versions[uri]

    def close(self, uri: str) -> None:
        self.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    def published(self, uri: str, version: int | None = None, *, timeout: float = TIMEOUT) -> list[JSON]:
        """Wait for the diagnostics of a version (None: any) of a text."""

        def wanted(message: JSON) -> bool:
            params = params_of(message)
            return (
                message.get("method") == "textDocument/publishDiagnostics"
                and params["uri"] == uri
                and (version is None or params.get("version") == version)
            )

        return self.wait(wanted, timeout=timeout)["params"]["diagnostics"]

    def checked(self, uri: str, text: str) -> list[JSON]:
        """Open a text and return its diagnostics."""
        self.open(uri, text)
        return self.published(uri, 1)

    def actions(self, uri: str, diagnostics: Sequence[JSON], only: Sequence[str] | None = None) -> list[JSON]:
        """Ask for the code actions of diagnostics."""
        range_ = diagnostics[0]["range"] if diagnostics else span(0, 0, 0, 0)
        context = {"diagnostics": list(diagnostics), **({"only": list(only)} if only is not None else {})}
        params = {"textDocument": {"uri": uri}, "range": range_, "context": context}
        return self.request("textDocument/codeAction", params)

    def hover(self, uri: str, line: int, character: int) -> Any:
        position = {"line": line, "character": character}
        return self.request("textDocument/hover", {"textDocument": {"uri": uri}, "position": position})

    def command(self, name: str, argument: Any = None) -> Any:
        """Have the server execute a command."""
        arguments = [] if argument is None else [argument]
        return self.request("workspace/executeCommand", {"command": name, "arguments": arguments})

    def lenses(self, uri: str) -> list[JSON]:
        return self.request("textDocument/codeLens", {"textDocument": {"uri": uri}})

    def hints(self, uri: str, lines: int = 1000) -> list[JSON]:
        return self.request("textDocument/inlayHint", {"textDocument": {"uri": uri}, "range": span(0, 0, lines, 0)})

    def save(self, uri: str) -> None:
        self.notify("textDocument/didSave", {"textDocument": {"uri": uri}})

    def pull(self, uri: str, previous: str | None = None) -> JSON:
        params = {"textDocument": {"uri": uri}, **({"previousResultId": previous} if previous else {})}
        return self.request("textDocument/diagnostic", params)

    def stop(self, timeout: float = TIMEOUT) -> int:
        """Leave politely; return the exit status."""
        if self.process.poll() is None:
            self.request("shutdown", timeout=timeout)
            self.notify("exit")
        return self.process.wait(timeout)

    def kill(self) -> None:
        """End the server, whatever it does."""
        self.process.kill()
        self.process.wait()


def _started(command: Sequence[str], env: Mapping[str, str], stderr: int | None) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=stderr, env={**os.environ, **env})


def debounced(milliseconds: int) -> Callable[[JSON], JSON]:
    """Return what answers every question for settings with a debounce."""
    return lambda item: {"debounce": milliseconds}


def params_of(message: JSON) -> JSON:
    """Return a message's parameters."""
    return cast("JSON", message.get("params") or {})


def progress_ends(message: JSON) -> bool:
    """Say whether a message ends a progress."""
    value: object = params_of(message).get("value")
    return isinstance(value, dict) and cast("JSON", value).get("kind") == "end"


Start = Callable[..., Client]
"""What starts a server and returns its client."""


def span(line: int, character: int, end_line: int, end_character: int) -> JSON:
    """Return a range."""
    start, end = {"line": line, "character": character}, {"line": end_line, "character": end_character}
    return {"start": start, "end": end}


def edit(line: int, character: int, end_line: int, end_character: int, text: str) -> JSON:
    """Return one incremental change."""
    return {"range": span(line, character, end_line, end_character), "text": text}


def units(text: str, encoding: str) -> int:
    """Return the length of a text in the units of an encoding, the slow and plain way."""
    size = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[encoding]
    return len(text.encode({"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}[encoding])) // size


def apply_edits(text: str, edits: Sequence[JSON], encoding: str = "utf-16") -> str:
    """Apply text edits as an editor does: all ranges mean the text before."""
    placed = [
        (_offset(text, e["range"]["start"], encoding), _offset(text, e["range"]["end"], encoding), e) for e in edits
    ]
    placed.sort(key=lambda item: item[:2])
    for (_, end, _), (start, _, _) in itertools.pairwise(placed):
        assert end <= start, "edits overlap"
    for start, end, one in reversed(placed):
        text = text[:start] + one["newText"] + text[end:]
    return text


def _offset(text: str, position: JSON, encoding: str) -> int:
    lines = _lines(text)
    number: int = position["line"]
    start = sum(len(before) for before in lines[:number])
    if number >= len(lines):
        return len(text)
    line = lines[number].rstrip("\r\n")
    return start + next(
        (n for n in range(len(line) + 1) if units(line[:n], encoding) >= position["character"]), len(line)
    )


def _lines(text: str) -> list[str]:
    """Split a text at CRLF, LF and CR, by hand; a line after the last line end counts."""
    lines: list[str] = []
    start = index = 0
    while index < len(text):
        if text[index] == "\n" or (text[index] == "\r" and text[index + 1 : index + 2] != "\n"):
            lines.append(text[start : index + 1])
            start = index + 1
        index += 1
    return [*lines, text[start:]]
