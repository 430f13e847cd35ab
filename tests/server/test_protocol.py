"""Every request gets one answer, and no message ends the server."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from typing import Any, cast

import pytest
from fake_dry_runs import FakeDryRuns
from faulty_analyzer import FaultyAnalyzer
from lsp_client import JSON, Client, ResponseError, Start

from drygrad.lsp.base.protocol import Protocol
from drygrad.lsp.server import DrygradServer


def code_of(client: Client, method: str, params: Any = None) -> int:
    with pytest.raises(ResponseError) as caught:
        client.request(method, params)
    return caught.value.code


def test_requests_at_a_wrong_time(start: Start) -> None:
    client = start()
    hover = {"textDocument": {"uri": "file:///a.py"}, "position": {"line": 0, "character": 0}}
    assert code_of(client, "textDocument/hover", hover) == -32002
    client.notify(
        "textDocument/didOpen", {"textDocument": {"uri": "a", "languageId": "python", "version": 1, "text": ""}}
    )
    client.initialize()
    assert code_of(client, "initialize", {"processId": None, "rootUri": None, "capabilities": {}}) == -32600
    client.request("shutdown")
    assert code_of(client, "textDocument/hover", hover) == -32600
    client.notify("textDocument/didSave", {})
    client.notify("exit")
    assert client.process.wait(180) == 0
    assert client.sent("window/showMessage") == []


@pytest.mark.parametrize("params", [{}, {"textDocument": 7}, [], "x", {"textDocument": {"uri": "a"}, "position": None}])
def test_malformed_parameters(shared: Client, params: Any) -> None:
    assert code_of(shared, "textDocument/hover", params) == -32602


def test_an_unknown_method(shared: Client) -> None:
    assert code_of(shared, "drygrad/nonsense") == -32601
    shared.notify("drygrad/nonsense")
    shared.notify("$/nonsense")


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b"[]", b"7", b'"x"', b"null"])
def test_what_is_no_message_is_refused(shared: Client, uri: str, body: bytes) -> None:
    before = len(shared.received)
    shared.send_bytes(body)
    assert shared.checked(uri, "leak()\n"), "the server goes on"
    refusals = [message for _, message in shared.received[before:] if "error" in message]
    assert [message["error"]["code"] in (-32700, -32600) for message in refusals] == [True]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "1" + "0" * 5000, "[" * 200_000])
def test_numbers_that_json_lacks_name_no_request(shared: Client, uri: str, number: str) -> None:
    shared.send_bytes(b'{"jsonrpc": "2.0", "id": %s, "method": "shutdown"}' % number.encode())
    assert shared.checked(uri, "leak()\n"), "the server goes on"


@pytest.mark.parametrize("identity", [[], {}, True, None, 1.5, -1])
def test_a_request_of_a_strange_name_ends_nothing(shared: Client, uri: str, identity: Any) -> None:
    hover = {"textDocument": {"uri": uri}, "position": {"line": 0, "character": 0}}
    shared.send({"jsonrpc": "2.0", "id": identity, "method": "textDocument/hover", "params": hover})
    assert shared.checked(uri, "leak()\n"), "the server goes on"


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0"},
        {"jsonrpc": "2.0", "id": 99, "result": {"of": "no request"}},
        {"jsonrpc": "2.0", "id": 98, "error": {"code": "not a number"}},
        {"jsonrpc": "1.0", "method": "x"},
        {"jsonrpc": "2.0", "method": "textDocument/didChange", "params": {"textDocument": 3}},
        {"jsonrpc": "2.0", "method": 7},
        {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": "nobody"}},
    ],
)
def test_a_strange_message_ends_nothing(shared: Client, uri: str, message: Any) -> None:
    shared.send(message)
    assert shared.checked(uri, "leak()\n")


def test_changes_of_what_is_not_open_are_passed_over(shared: Client, uri: str) -> None:
    shared.versions[uri] = 1
    shared.change(uri, {"text": "leak()"})
    shared.close(uri)
    shared.close(uri)
    assert shared.checked(uri, "leak()\n")


def test_an_object_that_looks_like_a_message_inside_the_options(start: Start) -> None:
    client = start()
    client.initialize(options={"settings": {"jsonrpc": "2.0", "id": 1, "method": "x"}})
    assert client.stop() == 0


def test_the_header_may_name_the_content_type(shared: Client, uri: str) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": "typed", "method": "textDocument/hover", "params": {}}).encode()
    header = b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\ncontent-length: %d\r\n\r\n" % len(body)
    stdin = shared.process.stdin
    assert stdin is not None
    stdin.write(header + body)
    stdin.flush()
    assert shared.wait(lambda message: message.get("id") == "typed")["error"]["code"] == -32602


class Unread:
    """A wire that nobody reads."""

    def write(self, data: bytes) -> None:
        pass

    def close(self) -> None:
        pass


async def test_nothing_is_kept_of_what_is_done() -> None:
    server = DrygradServer(FakeDryRuns(), FaultyAnalyzer)
    protocol = cast("Protocol", server.protocol)
    protocol.set_writer(Unread())
    item = {"uri": "file:///a.py", "languageId": "python", "version": 1, "text": ""}
    change = {"textDocument": {"uri": "file:///a.py", "version": 2}, "contentChanges": [{"text": "x"}]}
    hover = {"textDocument": {"uri": "file:///a.py"}, "position": {"line": 0, "character": 0}}
    messages: list[JSON] = [
        {"id": 1, "method": "initialize", "params": {"processId": None, "rootUri": None, "capabilities": {}}},
        {"method": "textDocument/didOpen", "params": {"textDocument": item}},
        *({"method": "textDocument/didChange", "params": change} for _ in range(20)),
        {"id": 2, "method": "textDocument/hover", "params": hover},
    ]
    for message in messages:
        protocol.receive(json.dumps({"jsonrpc": "2.0", **message}).encode())
    end = time.monotonic() + 60
    while vars(protocol)["_request_futures"] and time.monotonic() < end:
        await asyncio.sleep(0.01)
    logging.getLogger("drygrad").handlers.clear()
    assert vars(protocol)["_request_futures"] == {}
