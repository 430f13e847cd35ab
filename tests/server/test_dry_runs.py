"""Dry runs in the editor: asked for, shown, kept in step with the text, run again, ended; the runs are faked."""

from __future__ import annotations

from pathlib import Path

import dry_run_client
import pytest
from dry_run_client import answering, finished, last_run, published, ran, run
from lsp_client import JSON, Client, ResponseError, Start, debounced, edit, params_of, progress_ends, span

TEXT = """\
import torch

def step(x):
    y = tensor()
    fault()

def other():
    z = tensor()
    leak()
"""


@pytest.fixture
def trusted(start: Start, tmp_path: Path) -> Client:
    client = start(settings=debounced(0))
    client.initialize(tmp_path, options={"debounce": 0, "trusted": True})
    return client


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return (tmp_path / "train.py").as_uri()


def codes(items: list[JSON]) -> list[tuple[str, int]]:
    return [(item["code"], item["range"]["start"]["line"]) for item in items]


def shown(client: Client, uri: str, wanted: list[tuple[str, int]]) -> list[JSON]:
    """Wait until the last that is published of a text is this."""
    return dry_run_client.shown(client, uri, lambda items: codes(items) == wanted)


def value_of(message: JSON) -> JSON:
    """Return what a message says of a progress."""
    return params_of(message).get("value") or {} if message.get("method") == "$/progress" else {}


def title_of(message: JSON) -> str | None:
    return value_of(message).get("title")


def titles(client: Client, uri: str) -> list[tuple[int, str]]:
    return [(lens["range"]["start"]["line"], lens["command"]["title"]) for lens in client.lenses(uri)]


def test_a_run_confirms_what_is_found_and_adds_what_is_not(trusted: Client, uri: str) -> None:
    assert codes(trusted.checked(uri, TEXT)) == [("DG101", 8)]
    assert ran(trusted, uri, "other")["outcome"] == "failed"
    (leak,) = shown(trusted, uri, [("DG101", 8)])
    assert leak["message"].startswith("leak happened")
    ran(trusted, uri, "step")
    fault, leak = shown(trusted, uri, [("DG102", 4), ("DG101", 8)])
    assert fault["source"] == "drygrad"
    assert fault["relatedInformation"][0]["location"]["range"]["start"]["line"] == 2


def test_the_status_names_the_device_of_the_last_run(trusted: Client, uri: str) -> None:
    trusted.checked(uri, TEXT)
    ran(trusted, uri, "step")
    assert trusted.sent("drygrad/status")[-1]["device"] == "sim"
    ran(trusted, uri, "step", device="cpu")
    assert trusted.sent("drygrad/status")[-1]["device"] == "cpu"


def test_fixes_are_tried_when_a_run_has_ended(trusted: Client, uri: str) -> None:
    trusted.checked(uri, TEXT)
    ran(trusted, uri, "step")

    def tried() -> list[JSON]:
        return [d for d in published(trusted, uri) if any(fix["verified"] for fix in d["data"]["fixes"])]

    trusted.wait(lambda message: "method" in message and tried())
    (fix, *_) = trusted.actions(uri, tried())
    assert (fix["title"], fix["isPreferred"]) == ("Mend it (verified)", True)


def test_experiments_follow_a_run_that_has_told_its_findings(trusted: Client, uri: str) -> None:
    trusted.checked(uri, "def f():\n    x = tensor()\n    later()\n")
    run_id = run(trusted, uri, "f")
    finished(trusted, run_id)
    shown(trusted, uri, [("DG921", 2)])
    told = trusted.hover(uri, 0, 5)["contents"]["value"]
    assert "broken: devices are equal" in told
    assert "held: evaluation repeats" in told
    (report,) = trusted.request("drygrad/run", {"runId": run_id})["runs"]
    assert [one["outcome"] for one in report["experiments"]] == ["broken", "held"]


ENDLESS = "def f():\n    later()\n    endless()\n"


def test_an_experiment_is_shown_as_it_ends(trusted: Client, uri: str) -> None:
    trusted.checked(uri, ENDLESS)
    run_id = run(trusted, uri, "f")
    shown(trusted, uri, [("DG921", 1)])
    (report,) = trusted.request("drygrad/run", {"runId": run_id})["runs"]
    assert [one["code"] for one in report["experiments"]] == ["DG921"]
    assert finished(trusted, run_id)["text"].endswith("0.12 s")
    trusted.wait(lambda message: (last_run(message).get("text") or "").endswith("1 finding"))
    assert trusted.sent("drygrad/status")[-1]["lastRun"]["changes"] == 1


@pytest.mark.parametrize("way", ["button", "command", "all"])
def test_experiments_are_cancelled_and_what_they_have_found_stays(trusted: Client, uri: str, way: str) -> None:
    trusted.checked(uri, ENDLESS)
    run_id = run(trusted, uri, "f")
    begin = trusted.wait(lambda message: title_of(message) == "Experiments: f")["params"]
    trusted.wait(lambda message: value_of(message).get("message") == "evaluation repeats, 2 of 2")
    if way == "button":
        trusted.notify("window/workDoneProgress/cancel", {"token": begin["token"]})
    else:
        assert trusted.command("drygrad.cancel", {"runId": run_id} if way == "command" else None)
    trusted.wait(lambda message: progress_ends(message) and params_of(message)["token"] == begin["token"])
    shown(trusted, uri, [("DG921", 1)])
    assert not trusted.command("drygrad.cancel", None)


def test_a_refuted_finding_is_gone_until_the_function_changes(trusted: Client, uri: str) -> None:
    text = "def f():\n    x = tensor()\n    leak()\n    harmless()\n"
    trusted.checked(uri, text)
    ran(trusted, uri, "f")
    shown(trusted, uri, [])
    trusted.change(uri, edit(0, 0, 0, 0, "\n\n"))
    shown(trusted, uri, [])
    trusted.change(uri, edit(5, 4, 5, 14, "pass"))
    shown(trusted, uri, [("DG101", 4)])


def test_results_move_with_the_text_and_go_when_the_function_changes(trusted: Client, uri: str) -> None:
    trusted.checked(uri, TEXT)
    ran(trusted, uri, "step")
    trusted.change(uri, edit(0, 0, 0, 0, "# new\n"))
    (fault, _) = shown(trusted, uri, [("DG102", 5), ("DG101", 9)])
    assert fault["relatedInformation"][0]["location"]["range"]["start"]["line"] == 3
    edits = fault["data"]["fixes"][0]["changes"][0]["edits"]
    assert edits[0]["range"] == span(5, 4, 5, 9)
    (hint,) = trusted.hints(uri)
    assert hint["position"] == {"line": 4, "character": len("    y = tensor()")}
    trusted.change(uri, edit(4, 0, 4, 0, "    pass\n"))
    shown(trusted, uri, [("DG101", 10)])
    assert trusted.hints(uri) == []
    assert (3, "▶ Dry-run") in titles(trusted, uri)
    assert not [title for _, title in titles(trusted, uri) if title.startswith("✗")]


def test_while_the_text_does_not_parse_results_move_with_their_lines(trusted: Client, uri: str) -> None:
    trusted.checked(uri, TEXT)
    ran(trusted, uri, "step")
    trusted.change(uri, edit(0, 0, 0, 0, "x = (\n"))
    shown(trusted, uri, [("DG102", 5), ("DG101", 9)])
    assert [hint["position"]["line"] for hint in trusted.hints(uri)] == [4]


def test_the_lenses(trusted: Client, uri: str) -> None:
    trusted.checked(uri, TEXT + "\nif main:\n    w = tensor()\n")
    offered = [(line, title) for line in (2, 6) for title in ("▶ Dry-run", "▶ Forecast", "⋯")]
    assert titles(trusted, uri) == [*offered, *((10, title) for title in ("▶ Dry-run script", "▶ Forecast", "⋯"))]
    (lens, *_, script, _) = trusted.lenses(uri)
    ((argument,), command) = lens["command"]["arguments"], lens["command"]["command"]
    assert command in trusted.capabilities["executeCommandProvider"]["commands"]
    assert argument == {"uri": uri, "version": 1, "qualname": "step", "position": None, "device": None}
    finished(trusted, trusted.command(command, argument)["runId"])
    trusted.wait(lambda message: message.get("method") == "workspace/codeLens/refresh")
    trusted.wait(lambda message: message.get("method") == "workspace/inlayHint/refresh")
    _, _, result, pinned, *_ = trusted.lenses(uri)
    assert result["command"]["title"] == "✗ fault happened: target[2] = 5 is outside [0, 5)"
    assert pinned["command"]["title"] == "● pinned"
    trusted.command(pinned["command"]["command"], *pinned["command"]["arguments"])
    assert titles(trusted, uri)[3] == (2, "⋯")
    for lens in trusted.lenses(uri):
        assert lens["command"]["command"] in trusted.capabilities["executeCommandProvider"]["commands"]
    finished(trusted, trusted.command(command, *script["command"]["arguments"])["runId"])
    assert (10, "✓ passed on sim, 0.12 s") in titles(trusted, uri)


def test_the_inputs_of_a_run_are_written_above_its_function(trusted: Client, uri: str) -> None:
    def offered(line: int, only: list[str] | None = None) -> list[JSON]:
        place = {"line": line, "character": 5}
        context: JSON = {"diagnostics": [], **({"only": only} if only else {})}
        asked = {"textDocument": {"uri": uri}, "range": {"start": place, "end": place}, "context": context}
        return trusted.request("textDocument/codeAction", asked)

    trusted.checked(uri, TEXT)
    assert offered(2) == []
    ran(trusted, uri, "step")
    shown(trusted, uri, [("DG102", 4), ("DG101", 8)])
    (action,) = [each for each in offered(2) if each["kind"] == "refactor.rewrite"]
    assert action["title"] == "Write the inputs of the last run as a comment"
    ((change,),) = [each["edits"] for each in action["edit"]["documentChanges"]]
    assert change["newText"] == "# dry-run: x=float32 [8, 10] on cuda:0\n"
    assert change["range"]["start"]["line"] == 2
    assert offered(2, ["refactor"]) == [action]
    assert offered(2, ["quickfix"]) == []
    assert offered(3) == offered(6) == []


@pytest.mark.parametrize("trust", [True, False])
def test_where_an_editor_has_no_lenses_an_action_runs_what_is_under_the_cursor(
    start: Start, tmp_path: Path, trust: bool
) -> None:
    given: JSON = {"debounce": 0, "trusted": trust}
    client = start(settings=answering(given))
    client.initialize(tmp_path, capabilities={"textDocument": {"codeLens": None}}, options=given)
    uri = (tmp_path / "a.py").as_uri()

    def offered(line: int, **context: object) -> list[JSON]:
        place = {"line": line, "character": 0}
        asked: JSON = {"textDocument": {"uri": uri}, "range": {"start": place, "end": place}}
        actions = client.request("textDocument/codeAction", {**asked, "context": {"diagnostics": [], **context}})
        return [action for action in actions if action["title"].startswith("Dry-run")]

    client.checked(uri, TEXT + "\nif main:\n    w = tensor()\n")
    assert offered(0) == offered(3, only=["quickfix"]) == []
    assert [action["title"] for line in (3, 11) for action in offered(line)] == [
        "Dry-run step",
        "Dry-run the script",
    ] * trust
    for line, target in ((3, "step"), (11, None)) if trust else ():
        ((command,),) = [[action["command"] for action in offered(line)]]
        assert finished(client, client.command(command["command"], *command["arguments"])["runId"])["target"] == target


def test_no_lens_where_nothing_speaks_of_torch(trusted: Client, uri: str) -> None:
    trusted.checked(uri, "def f():\n    pass\n")
    assert trusted.lenses(uri) == []


def test_lenses_and_hints_can_be_switched_off(start: Start, tmp_path: Path, uri: str) -> None:
    off: JSON = {"debounce": 0, "trusted": True, "codeLens": False, "inlayHints": False}
    client = start(settings=answering(off))
    client.initialize(tmp_path, options=off)
    client.checked(uri, TEXT)
    ran(client, uri, "step")
    assert (client.lenses(uri), client.hints(uri)) == ([], [])


def test_hints_and_hover_say_what_was_seen(trusted: Client, uri: str) -> None:
    trusted.checked(uri, TEXT.replace("fault()", "print(y)\n    self.fc(y)"))
    ran(trusted, uri, "step")
    (hint,) = trusted.hints(uri)
    assert hint["label"] == ": float32 [8, 10] cuda"
    assert hint["tooltip"] == "y: float32 [8, 10] on cuda:0, values from -1.5 to 2, requires grad"
    assert trusted.hints(uri, lines=2) == []
    assert trusted.hover(uri, 4, 10)["contents"]["value"] == f"- `y`: {hint['tooltip'][3:]}"
    assert "from the call in line 9" in trusted.hover(uri, 2, 9)["contents"]["value"], "a parameter"
    assert "the gradient of `fc.weight` has norm 0.5" in trusted.hover(uri, 5, 10)["contents"]["value"]
    whole = trusted.hover(uri, 2, 5)["contents"]["value"]
    for line in (100, 2**31 - 1):
        assert trusted.hover(uri, line, 5) is None, "beyond the text"
    assert whole.startswith("- dry run: ✓ passed on sim, 0.12 s\n- input `x`: float32 [8, 10] on cuda:0")
    assert trusted.hover(uri, 7, 5) is None, "another function"


def test_a_device_for_one_run(trusted: Client, uri: str) -> None:
    trusted.checked(uri, TEXT.replace("fault()", "pass"))
    assert ran(trusted, uri, "step", device="cpu")["text"] == "✓ passed on the CPU, 0.12 s"
    with pytest.raises(ResponseError, match="no device"):
        run(trusted, uri, "step", device="tpu")


def test_the_whole_file_and_a_position(trusted: Client, uri: str) -> None:
    trusted.checked(uri, TEXT)
    report = trusted.request("drygrad/run", {"runId": (whole := run(trusted, uri))})
    finished(trusted, whole)
    report = trusted.request("drygrad/run", {"runId": whole})
    assert [one["outcome"] for one in report["runs"]] == ["failed", "failed"]
    assert not report["running"]
    assert ran(trusted, uri, position={"line": 7, "character": 3})["target"] == "other"
    with pytest.raises(ResponseError):
        trusted.request("drygrad/run", {"runId": "run-99"})


def test_of_a_whole_file_only_a_comment_that_cannot_be_read_is_told_of_what_has_no_inputs(
    trusted: Client, uri: str
) -> None:
    trusted.checked(uri, "# dry-run: x=(\ndef f():\n    garbled()\n\n\ndef g():\n    unknown()\n")
    finished(trusted, run(trusted, uri))
    shown(trusted, uri, [("DG901", 0)])


def test_a_position_in_an_older_text_is_refused(trusted: Client, uri: str) -> None:
    trusted.checked(uri, TEXT)
    trusted.change(uri, edit(0, 0, 0, 0, "\n"))
    argument = {"uri": uri, "version": 1, "qualname": None, "position": {"line": 7, "character": 0}}
    assert trusted.command("drygrad.dryRun", argument)["runId"] is None


def test_what_was_run_once_runs_again_at_each_save_until_unpinned(trusted: Client, uri: str) -> None:
    trusted.checked(uri, TEXT)
    first = run(trusted, uri, "step")
    finished(trusted, first)
    trusted.change(uri, edit(4, 4, 4, 11, "pass"))
    shown(trusted, uri, [("DG101", 8)])
    trusted.save(uri)
    assert finished(trusted, "run-2")["text"] == "✓ passed on sim, 0.12 s"
    trusted.command("drygrad.unpin", {"uri": uri, "qualname": "step"})
    trusted.save(uri)
    assert finished(trusted, run(trusted, uri, "other"))["runId"] == "run-3"


def test_saving_what_a_file_imports_runs_it_again(trusted: Client, uri: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "package").mkdir()
    for name, text in {"__init__": "", "model": "from . import layers\n", "layers": "N = 1\n"}.items():
        (tmp_path / "package" / f"{name}.py").write_text(text)
    layers = (tmp_path / "package" / "layers.py").as_uri()
    trusted.checked(uri, f"from package.model import Net\n{TEXT}")
    trusted.checked(layers, "N = 2\n")
    ran(trusted, uri, "step")
    assert "buffer layers.py: N = 2" in trusted.hover(uri, 3, 5)["contents"]["value"]
    trusted.change(layers, {"text": "N = 3\n"})
    shown(trusted, uri, [("DG101", 9)])
    trusted.save(layers)
    shown(trusted, uri, [("DG102", 5), ("DG101", 9)])
    assert "buffer layers.py: N = 3" in trusted.hover(uri, 3, 5)["contents"]["value"]
    trusted.checked((tmp_path / "elsewhere.py").as_uri(), "")
    trusted.save((tmp_path / "elsewhere.py").as_uri())
    assert ran(trusted, uri, "other")["runId"] == "run-3", "a file that is not imported"


def test_no_run_on_save_where_that_is_off(start: Start, tmp_path: Path, uri: str) -> None:
    given: JSON = {"debounce": 0, "trusted": True, "dryRunOnSave": False}
    client = start(settings=answering(given))
    client.initialize(tmp_path, options=given)
    client.checked(uri, TEXT)
    ran(client, uri, "step")
    client.save(uri)
    assert ran(client, uri, "step")["runId"] == "run-2"


def test_the_status_tells_the_end_of_each_of_several_runs(trusted: Client, uri: str) -> None:
    trusted.checked(uri, TEXT)
    asked = [
        trusted.begin(
            "workspace/executeCommand",
            {"command": "drygrad.dryRun", "arguments": [{"uri": uri, "qualname": name}]},
        )
        for name in ("step", "other")
    ]
    assert [finished(trusted, each.result()["runId"])["target"] for each in asked] == ["step", "other"]


def test_a_newer_save_ends_the_older_run(trusted: Client, uri: str) -> None:
    trusted.checked(uri, TEXT)
    ran(trusted, uri, "step")
    trusted.change(uri, edit(4, 4, 4, 11, "hang()"))
    trusted.save(uri)
    trusted.wait(lambda message: params_of(message).get("running") == ["run-2"])
    trusted.change(uri, edit(4, 4, 4, 10, "pass"))
    trusted.save(uri)
    assert finished(trusted, "run-3")["outcome"] == "passed"


@pytest.mark.parametrize("way", ["button", "command", "all"])
def test_a_run_is_cancelled(trusted: Client, uri: str, way: str) -> None:
    trusted.checked(uri, TEXT.replace("fault()", "hang()"))
    run_id = run(trusted, uri, "step")
    begin = trusted.wait(lambda message: message.get("method") == "$/progress")["params"]
    assert begin["value"] == {"kind": "begin", "title": "Dry run: step", "cancellable": True}
    told = trusted.wait(lambda message: [one["phase"] for one in params_of(message).get("phases") or ()] == ["running"])
    assert titles(trusted, uri)[0] == (2, "◌ running: cancel"), told
    if way == "button":
        trusted.notify("window/workDoneProgress/cancel", {"token": begin["token"]})
    else:
        assert trusted.command("drygrad.cancel", {"runId": run_id} if way == "command" else None)
    assert finished(trusted, run_id)["outcome"] == "cancelled"
    trusted.wait(progress_ends)
    assert ran(trusted, uri, "other")["outcome"] == "failed"


def test_phases_are_shown(trusted: Client, uri: str) -> None:
    trusted.checked(uri, TEXT)
    ran(trusted, uri, "step")
    trusted.wait(progress_ends)
    kinds = [params["value"]["kind"] for params in trusted.sent("$/progress")]
    messages = [params["value"].get("message") for params in trusted.sent("$/progress")]
    assert (kinds[0], kinds[-1]) == ("begin", "end")
    assert "running" in messages


def test_a_client_that_never_answers_does_not_hold_up_a_run(trusted: Client, uri: str) -> None:
    trusted.answers_progress = False
    trusted.checked(uri, TEXT)
    assert ran(trusted, uri, "step")["outcome"] == "failed"
    assert trusted.sent("$/progress") == []


def test_closing_a_document_forgets_its_runs_and_pins(trusted: Client, uri: str) -> None:
    trusted.checked(uri, TEXT)
    ran(trusted, uri, "step")
    ran(trusted, uri, "other")
    trusted.close(uri)
    trusted.checked(uri, TEXT)
    assert codes(shown(trusted, uri, [("DG101", 8)])) == [("DG101", 8)]
    assert [title for _, title in titles(trusted, uri)] == ["▶ Dry-run", "▶ Forecast", "⋯"] * 2


def test_a_forecast_is_cancelled_as_a_run_is_and_leaves_the_last_run_alone(trusted: Client, uri: str) -> None:
    trusted.checked(uri, TEXT.replace("tensor()\n    leak", "hang()\n    leak"))
    last = ran(trusted, uri, "step")
    lens = next(lens["command"] for lens in trusted.lenses(uri) if lens["command"]["title"] == "▶ Forecast")
    assert lens["command"] in trusted.capabilities["executeCommandProvider"]["commands"]
    argument = {**lens["arguments"][0], "qualname": "other", "gpu": "rtx4090"}
    run_id = trusted.command(lens["command"], argument)["runId"]
    trusted.wait(lambda message: title_of(message) == "Forecast: other")
    trusted.wait(lambda message: "other" in [one["target"] for one in (params_of(message) or {}).get("phases", ())])
    assert (6, "◌ running: cancel") in titles(trusted, uri)
    assert trusted.command("drygrad.cancel", {"runId": run_id})
    trusted.wait(lambda message: message.get("method") == "drygrad/status" and not params_of(message)["running"])
    assert trusted.sent("drygrad/status")[-1]["lastRun"]["runId"] == last["runId"]
    with pytest.raises(ResponseError, match="unknown GPU"):
        trusted.command(lens["command"], {**argument, "gpu": "rtx9"})


def test_closing_a_document_ends_its_runs(trusted: Client, uri: str) -> None:
    trusted.checked(uri, TEXT.replace("fault()", "hang()"))
    run_id = run(trusted, uri, "step")
    trusted.close(uri)
    assert finished(trusted, run_id)["outcome"] == "cancelled"
    assert trusted.stop() == 0


def test_clear_forgets_results(trusted: Client, uri: str) -> None:
    trusted.checked(uri, TEXT)
    ran(trusted, uri, "step")
    shown(trusted, uri, [("DG102", 4), ("DG101", 8)])
    trusted.command("drygrad.clear")
    shown(trusted, uri, [("DG101", 8)])
    assert trusted.hints(uri) == []


def test_pulling_clients_are_told_to_pull(start: Start, tmp_path: Path, uri: str) -> None:
    client = start(settings=debounced(0))
    pulls: JSON = {"textDocument": {"diagnostic": {}}, "workspace": {"diagnostics": {"refreshSupport": True}}}
    client.initialize(tmp_path, capabilities=pulls, options={"debounce": 0, "trusted": True})
    client.open(uri, TEXT)
    first = client.pull(uri)
    assert codes(first["items"]) == [("DG101", 8)]
    ran(client, uri, "step")
    client.wait(lambda message: message.get("method") == "workspace/diagnostic/refresh")
    assert codes(client.pull(uri, first["resultId"])["items"]) == [("DG102", 4), ("DG101", 8)]


@pytest.mark.parametrize("given", [None, False])
def test_nothing_runs_where_the_workspace_is_not_trusted(
    start: Start, tmp_path: Path, uri: str, given: bool | None
) -> None:
    options: JSON = {"debounce": 0, **({} if given is None else {"trusted": given})}
    client = start(settings=answering(options))
    client.initialize(tmp_path, options=options)
    client.checked(uri, TEXT)
    assert client.lenses(uri) == []
    answers = [client.command("drygrad.dryRun", {"uri": uri, "qualname": "step"}) for _ in range(3)]
    assert {answer["runId"] for answer in answers} == {None}
    assert "drygrad.trusted" in answers[0]["message"]
    client.command("drygrad.pin", {"uri": uri, "qualname": "step"})
    client.save(uri)
    assert [p["message"] for p in client.sent("window/showMessage")] == [answers[0]["message"]]
    assert not [p for p in client.sent("drygrad/status") if p["lastRun"] or p["running"]]


def test_a_place_is_as_good_as_a_name_for_pinning(trusted: Client, uri: str) -> None:
    trusted.checked(uri, TEXT)
    place = {"uri": uri, "qualname": None, "position": {"line": 8, "character": 4}}

    def pinned() -> list[str]:
        shown = trusted.lenses(uri)
        return [lens["command"]["arguments"][0]["qualname"] for lens in shown if "pinned" in lens["command"]["title"]]

    trusted.command("drygrad.pin", place)
    assert pinned() == ["other"]
    trusted.command("drygrad.unpin", place)
    assert pinned() == []


def test_pinning_where_no_function_is_says_so(trusted: Client, uri: str) -> None:
    trusted.checked(uri, TEXT + "\n\nhalf = (")
    trusted.command("drygrad.pin", {"uri": uri, "position": {"line": 8, "character": 4}})
    assert [p["message"] for p in trusted.sent("window/showMessage")] == ["There is no function here to dry-run."]


def test_a_project_cannot_trust_itself(client: Client, tmp_path: Path, uri: str) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.drygrad]\ntrusted = true\ninterpreter = "/tmp/x"\n')
    client.checked(uri, TEXT)
    assert client.command("drygrad.dryRun", {"uri": uri, "qualname": "step"})["runId"] is None


def test_the_settings_may_take_trust_back(start: Start, tmp_path: Path, uri: str) -> None:
    given: JSON = {"debounce": 0}
    client = start(settings=answering(given))
    client.initialize(tmp_path, options={"trusted": True})
    client.checked(uri, TEXT.replace("fault()", "hang()"))
    run_id = run(client, uri, "step")
    given["trusted"] = False
    client.notify("workspace/didChangeConfiguration", {"settings": None})
    assert finished(client, run_id)["outcome"] == "cancelled"
    assert client.command("drygrad.dryRun", {"uri": uri, "qualname": "step"})["runId"] is None


@pytest.mark.parametrize(("call", "said"), [("unknown()", "unknown happened"), ("no_torch()", "no usable torch")])
def test_a_user_who_gets_nothing_is_told_why_once(trusted: Client, uri: str, call: str, said: str) -> None:
    trusted.checked(uri, TEXT.replace("fault()", call))
    for _ in range(3):
        ran(trusted, uri, "step")
    trusted.save(uri)
    finished(trusted, "run-4")
    (message,) = trusted.sent("window/showMessage")
    assert said in message["message"]


def test_another_interpreter_restarts_the_workers(start: Start, tmp_path: Path, uri: str) -> None:
    given: JSON = {"debounce": 0, "trusted": True}
    client = start(settings=answering(given))
    client.initialize(tmp_path, options=given)
    client.checked(uri, TEXT)
    ran(client, uri, "step")
    given["interpreter"] = "/somewhere/python"
    client.notify("workspace/didChangeConfiguration", {"settings": None})
    client.wait(lambda message: params_of(message).get("worker") == {"state": "starting", "why": None})
    ran(client, uri, "step")
    assert client.sent("drygrad/status")[-1]["interpreter"] == "/somewhere/python"


def test_an_editor_may_know_an_interpreter_for_one_file(start: Start, tmp_path: Path) -> None:
    one, two = ((tmp_path / f"{name}.py").as_uri() for name in ("one", "two"))
    own = {one: "/one/python"}

    def answer(item: JSON) -> JSON:
        python = own.get(item.get("scopeUri", ""), "/the/folders/python")
        return {"debounce": 0, "trusted": True, "interpreter": python}

    def runs_by(uri: str) -> str:
        ran(client, uri, "step")
        return client.sent("drygrad/status")[-1]["interpreter"]

    client = start(settings=answer)
    client.initialize(tmp_path)
    for uri in (one, two):
        client.checked(uri, TEXT)
    assert [runs_by(uri) for uri in (one, two, one)] == ["/one/python", "/the/folders/python", "/one/python"]
    client.notify("workspace/didChangeConfiguration", {"settings": None})
    assert runs_by(one) == "/one/python"
    states = [status["worker"]["state"] for status in client.sent("drygrad/status")]
    assert "starting" not in states, "no change restarts the workers"
    own[one] = "/another/python"
    client.notify("workspace/didChangeConfiguration", {"settings": None})
    client.wait(lambda message: params_of(message).get("worker") == {"state": "starting", "why": None})
    assert runs_by(one) == "/another/python"
    client.close(one)
    client.checked(one, TEXT)
    assert runs_by(one) == "/another/python"


def test_restarting_the_workers_ends_their_runs(trusted: Client, uri: str) -> None:
    trusted.checked(uri, TEXT.replace("fault()", "hang()"))
    run_id = run(trusted, uri, "step")
    trusted.command("drygrad.restartWorkers")
    assert finished(trusted, run_id)["outcome"] == "cancelled"


@pytest.mark.parametrize("argument", [None, 7, {}, {"uri": 3}, {"uri": "x", "position": 4, "qualname": None}])
def test_commands_refuse_what_they_do_not_understand(trusted: Client, argument: object) -> None:
    with pytest.raises(ResponseError):
        trusted.command("drygrad.dryRun", argument)


def test_the_server_leaves_in_the_middle_of_a_run(trusted: Client, uri: str) -> None:
    trusted.checked(uri, TEXT.replace("fault()", "hang()"))
    run(trusted, uri, "step")
    assert trusted.stop() == 0
