"""The tools: their names, what they take, what they say of themselves, and the work behind each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from drygrad.cli.errors import Failure
from drygrad.cli.formats.json_schema import report_schema
from drygrad.cli.rules import entry
from drygrad.cli.run_progress import Progress
from drygrad.documentation import page
from drygrad.option_values import did_you_mean
from drygrad.static.registry import all_rules, rule_by_code

from .words import told
from .work import Done, Work, report_json

Given = Mapping[str, Any]


@dataclass(frozen=True)
class Answer:
    """What a tool answers: in words, and as JSON."""

    text: str
    data: dict[str, Any]


@dataclass(frozen=True)
class Tool:
    """One tool. ``writes`` says whether it may change files."""

    name: str
    title: str
    description: str
    inputs: Mapping[str, Any]
    output: Mapping[str, Any]
    work: Callable[[Work, Given, Progress], Awaitable[Answer]]
    writes: bool = False


async def _check(work: Work, given: Given, progress: Progress) -> Answer:
    return _answered(await work.check(given["path"], [], progress))


async def _run(work: Work, given: Given, progress: Progress) -> Answer:
    return _answered(await _ran(work, given, [], progress))


async def _experiments(work: Work, given: Given, progress: Progress) -> Answer:
    done = await _ran(work, given, [f"--experiment-time={given.get('seconds', 30)}"], progress)
    return _answered(done, relations=True)


async def _fix(work: Work, given: Given, progress: Progress) -> Answer:
    writes = given.get("write", False)
    options = ["--fix", *(["--unsafe-fixes"] if given.get("unsafe") else []), *([] if writes else ["--diff"])]
    if given.get("run", True):
        done = await _ran(work, given, options, progress)
    else:
        done = await work.check(_file_of(given["target"]), options, progress)
    answer, diff = _answered(done), "".join(result.diff for result in done.report.results)
    data = {**answer.data, "fixed": done.report.fixed, "diff": diff}
    return Answer(f"{answer.text}\n\n{diff}" if diff else answer.text, data)


def _answered(done: Done, *, relations: bool = False) -> Answer:
    text = "\n".join([*done.problems, told(done.report, relations=relations)])
    return Answer(text, report_json(done.report))


def _file_of(target: str) -> str:
    name, separator, _ = target.partition("::")
    if separator:
        raise Failure(f"without a run whole files are fixed: name {name} alone")
    return name


async def _forecast(work: Work, given: Given, progress: Progress) -> Answer:
    target, words = _asked(given)
    gpu = [f"--gpu={given['gpu']}"] if given.get("gpu") else []
    what_if = ["--what-if"] if given.get("what_if") else []
    text, data = await work.forecast(target, [*gpu, *what_if, *_options(given)], words, progress)
    return Answer(text, data)


async def _ran(work: Work, given: Given, options: list[str], progress: Progress) -> Done:
    target, words = _asked(given)
    return await work.run(target, [*options, *_options(given)], words, progress)


def _asked(given: Given) -> tuple[str | None, list[str] | None]:
    """Return what is to be run, and the words behind it; Failure where that is nothing, or two things."""
    target, command, arguments = given.get("target"), given.get("command"), given.get("arguments")
    if command is not None and (target or arguments is not None):
        raise Failure("`command` is a whole command line: leave out `target` and `arguments`")
    if command is None and not target:
        raise Failure("name what is to be run: `target`, or `command`")
    return target, command if command is not None else arguments


def _options(given: Given) -> list[str]:
    names = ("inputs", "device", "timeout", "ranks")
    return [f"--{name}={given[name]}" for name in names if given.get(name) is not None]


async def _explain(_: Work, given: Given, __: Progress) -> Answer:
    rule = rule_by_code(given["code"])
    if rule is None:
        known = [word for each in all_rules() for word in (each.code, each.name)]
        raise Failure(f"no rule is called `{given['code']}`{did_you_mean(given['code'], known)}")
    return Answer(page(rule), entry(rule))


_TARGET = {
    "type": "string",
    "description": "What to run: `train.py::Net.forward` (a function or method), `train.py::Net` (a class), or "
    "`train.py` (every function that has inputs, then the script).",
}
_CONDITIONS = {
    "inputs": {
        "type": "string",
        "description": "Arguments of the target in Python, e.g. `x=torch.randn(8, 3, 32, 32), self=Net(10)`. Omit "
        "it at first: drygrad uses calls in the project, tests and `# dry-run:` comments, or else a search.",
    },
    "arguments": {
        "type": "array",
        "items": {"type": "string"},
        "description": 'Words of the script\'s command line, e.g. ["--config", "a.yaml"].',
    },
    "command": {
        "type": "array",
        "items": {"type": "string"},
        "description": 'Instead of `target`: a whole launch command, e.g. ["torchrun", "--nproc-per-node", "4", '
        '"train.py", "--lr", "0.1"] or ["pytest", "tests/test_model.py::test_step"].',
    },
    "device": {"enum": ["auto", "cuda", "sim", "cpu"], "description": "sim is a simulated GPU; default: auto."},
    "timeout": {"type": "number", "exclusiveMinimum": 0, "maximum": 3600, "description": "Seconds for one run (30)."},
    "ranks": {
        "type": "integer",
        "minimum": 1,
        "maximum": 8,
        "description": "How many processes of a distributed program.",
    },
}


def _inputs(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    """Return the schema of a tool's arguments; a name that means nothing is refused."""
    return {"type": "object", "properties": dict(properties), "required": [*required], "additionalProperties": False}


def _report_with(**more: Any) -> dict[str, Any]:
    schema = report_schema()
    added = {
        "left_out": {"type": "integer", "description": "Findings and shapes that were left out for length."},
        **more,
    }
    return {**schema, "properties": {**schema["properties"], **added}, "required": [*schema["required"], *added]}


def _rule_schema() -> dict[str, Any]:
    kinds = {key: {"type": "string"} for key in ("code", "name", "severity", "since", "summary", "documentation")}
    return {"type": "object", "properties": kinds, "required": [*kinds]}


TOOLS = (
    Tool(
        "check",
        "Check PyTorch code without running it",
        "Reads Python files, notebooks or folders, and reports PyTorch faults that their text proves: in-place writes "
        "that break backward, devices, shapes, dtypes, losses, NaN, memory growth, the training loop. Fast; executes "
        "nothing. Use it after each edit of training code.",
        _inputs({"path": {"type": "string", "description": "A file or folder of the project."}}, "path"),
        _report_with(),
        _check,
    ),
    Tool(
        "run",
        "Dry-run PyTorch code in a sandbox",
        "Executes a function, script or launch command under instruments in a sandbox, on a simulated GPU if there "
        "is no real one. Reports what fails and where the fault begins, with shapes, memory and tested fixes. Loops "
        "over data end after a few steps; writes are discarded and there is no network. Use it before launching a job, "
        "and to test your own edits.",
        _inputs({"target": _TARGET, **_CONDITIONS}),
        _report_with(),
        _run,
    ),
    Tool(
        "experiments",
        "Check properties that correct PyTorch code has",
        "Runs a target as `run` does, then calls it again with one thing changed: another device, other samples in the "
        "batch, other batch sizes, evaluation twice, padding, extreme inputs, several steps. Reports what held, what "
        "broke and on which line, and what could not be tried and why. Slower than `run`; finds faults that raise no "
        "error.",
        _inputs(
            {
                "target": _TARGET,
                **_CONDITIONS,
                "seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": 600, "description": "To spend (30)."},
            }
        ),
        _report_with(),
        _experiments,
    ),
    Tool(
        "fix",
        "Fix PyTorch faults",
        "Returns a diff that fixes what was found, and writes it if `write` is true. By default the target is run, "
        "and only verified fixes are applied: the fault is gone, nothing new appeared, no gradient was lost. If `run` "
        "is false, the safe fixes of `check` are applied to whole files, without being tested.",
        _inputs(
            {
                "target": _TARGET,
                "inputs": _CONDITIONS["inputs"],
                "device": _CONDITIONS["device"],
                "timeout": _CONDITIONS["timeout"],
                "run": {"type": "boolean", "description": "Whether to run the target and test the fixes (true)."},
                "unsafe": {
                    "type": "boolean",
                    "description": "Also apply fixes that change what the code computes, usually the point (false).",
                },
                "write": {
                    "type": "boolean",
                    "description": "Write the files instead of only returning a diff (false).",
                },
            },
            "target",
        ),
        _report_with(fixed={"type": "integer"}, diff={"type": "string"}),
        _fix,
        writes=True,
    ),
    Tool(
        "forecast",
        "Forecast what a job needs on a GPU",
        "Traces a function, script or launch command at its real size, without the memory and arithmetic of a GPU. "
        "Reports its peak memory by phase, line and kind, whether it fits on a GPU, and the first allocation that does "
        "not. Use it before launching a job, and to choose a batch size.",
        _inputs(
            {
                "target": _TARGET,
                **{name: _CONDITIONS[name] for name in ("inputs", "arguments", "command", "timeout")},
                "gpu": {"type": "string", "description": "The GPU, e.g. `H100-80GB`, `rtx4090`, or a size: `24GiB`."},
                "what_if": {
                    "type": "boolean",
                    "description": "Also trace it with changes that could reduce its memory (false).",
                },
            }
        ),
        {
            "type": "object",
            "properties": {"version": {"type": "integer"}, "forecasts": {"type": "array", "items": {"type": "object"}}},
            "required": ["version", "forecasts"],
        },
        _forecast,
    ),
    Tool(
        "explain",
        "Explain a rule",
        "Returns the page of a rule: what it finds, why that is bad, what to write instead.",
        _inputs({"code": {"type": "string", "description": "DG101, or inplace-on-saved-tensor."}}, "code"),
        _rule_schema(),
        _explain,
    ),
)
