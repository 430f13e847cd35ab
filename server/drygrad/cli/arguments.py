"""What can be typed after ``drygrad``."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from drygrad.gpus import byte_size
from drygrad.model import SEVERITIES
from drygrad.version import __version__

EPILOG = "Exit status: 0 no error or warning (--fail-on moves the line), 1 findings, 2 it could not do the job."

RUN_EPILOG = f"{EPILOG} A run writes nothing outside a sandbox, and has no network."


_RUNS = ("PATH[::QUALNAME] [-- ARGUMENTS]", "-m MODULE [-- ARGUMENTS]", "-- COMMAND")


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """Return what was typed; behind ``--``, where a run has it, stands a command line that is not ours."""
    own, others = _split(words) if list(words[:1]) == ["run"] else (words, None)
    arguments = parser().parse_args(own)
    arguments.words = others
    return arguments


def _split(words: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """Return our own words and, behind the first ``--``, those of the program's command line, if there are any."""
    if "--" not in words:
        return list(words), None
    at = words.index("--")
    return list(words[:at]), list(words[at + 1 :])


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    top = argparse.ArgumentParser(
        "drygrad", description="Find PyTorch faults before the job is launched.", epilog=EPILOG, allow_abbrev=False
    )
    top.add_argument("--version", action="version", version=f"drygrad {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _check(commands.add_parser("check", help="check files and folders", epilog=EPILOG, allow_abbrev=False))
    _run(commands.add_parser("run", help="run functions under instruments", epilog=RUN_EPILOG, allow_abbrev=False))
    launches = commands.add_parser("launches", help="list how the project's programs are started", epilog=EPILOG)
    launches.add_argument("path", nargs="?", default=".", metavar="PATH", help="a folder, or a program (default: here)")
    launches.add_argument("--output-format", choices=("text", "json"), default="text")
    explain = commands.add_parser("explain", help="explain a rule")
    explain.add_argument("rule", metavar="CODE|NAME", help="DG101, or inplace-on-saved-tensor")
    rules = commands.add_parser("rules", help="list the rules")
    rules.add_argument("--output-format", choices=("text", "json"), default="text")
    doctor = commands.add_parser("doctor", help="say what drygrad finds on this machine")
    doctor.add_argument("--python", metavar="P", help="the interpreter to look at (default: the project's)")
    doctor.add_argument("--trust", action="store_true", help="start the project's own .venv to look at it")
    doctor.add_argument("path", nargs="?", default=".", help="a file or folder of the project (default: here)")
    server = commands.add_parser("server", help="run the language server (editors do this)")
    server.add_argument("--stdio", action="store_true", help="speak on stdin and stdout (the default)")
    server.add_argument("--tcp", type=_port, metavar="PORT", help="listen on a local port, for debugging")
    server.add_argument("--log-file", type=Path, metavar="FILE", help="write the log there instead of to stderr")
    server.add_argument("--log-level", choices=("error", "warning", "info", "debug"), default="info")
    _mcp(
        commands.add_parser("mcp", help="offer all this to coding agents (Model Context Protocol, on stdin and stdout)")
    )
    return top


def _mcp(mcp: argparse.ArgumentParser) -> None:
    mcp.add_argument(
        "folders", nargs="*", type=Path, metavar="FOLDER", help="what agents may name lies there (default: here)"
    )
    mcp.add_argument("--trust", action="store_true", help="allow dry runs: the code of these folders is executed")
    mcp.add_argument("--python", metavar="P", help="the interpreter of dry runs (default: the project's)")
    mcp.add_argument("--launcher", type=_words, default=(), metavar="CMD", help="a command that starts it")


def _check(check: argparse.ArgumentParser) -> None:
    check.add_argument("paths", nargs="*", default=["."], metavar="PATH", help="files, folders, or - for stdin")
    fixes = check.add_argument_group("fixes")
    fixes.add_argument("--fix", action="store_true", help="apply the safe fixes")
    fixes.add_argument("--unsafe-fixes", action="store_true", help="apply the unsafe fixes, too")
    fixes.add_argument("--diff", action="store_true", help="show what fixing would change, and write nothing")
    rules = check.add_argument_group("rules")
    rules.add_argument("--select", type=_codes, metavar="CODES", help="report only these, e.g. DG1,DG304")
    rules.add_argument("--ignore", type=_codes, metavar="CODES", default=(), help="do not report these")
    rules.add_argument("--baseline", type=Path, metavar="FILE", help="leave out the findings this file knows")
    rules.add_argument("--write-baseline", action="store_true", help="make the findings of now the known ones")
    rules.add_argument("--no-baseline", dest="use_baseline", action="store_false", help="report known findings, too")
    files = check.add_argument_group("files")
    files.add_argument("--stdin-filename", metavar="NAME", default="<stdin>", help="the name of what stdin brings")
    files.add_argument(
        "--force-exclude", action="store_true", help="leave out what the settings exclude, even where it is named here"
    )
    files.add_argument("--no-gitignore", dest="gitignore", action="store_false", help="check what git ignores, too")
    files.add_argument("--no-cache", dest="cache", action="store_false", help="check again what has not changed")
    files.add_argument("--jobs", type=_positive, metavar="N", help="processes (default: as many as pay)")
    output = check.add_argument_group("output")
    output.add_argument("--output-format", choices=("text", "json", "sarif", "github"), default="text")
    output.add_argument("--fail-on", choices=SEVERITIES, default="warning", help="gravity from which the status is 1")
    output.add_argument("--no-progress", dest="progress", action="store_false", help="show no progress bar")
    output.add_argument("-q", "--quiet", action="store_true", help="say nothing if there is nothing to report")


def _run(run: argparse.ArgumentParser) -> None:
    run.usage = f"\n{' ' * 7}".join(f"drygrad run [options] {what}" for what in _RUNS)
    run.add_argument(
        "target",
        nargs="?",
        metavar="PATH[::QUALNAME]",
        help="a function, such as train.py::Net.forward; a file or folder: all that has inputs, then the scripts; "
        "with arguments behind `--`: the script alone, started with them",
    )
    what = run.add_argument_group("what to run")
    what.add_argument("-m", dest="module", metavar="MODULE", help="a module, as `python -m` starts it")
    what.add_argument("--launch", metavar="NAME", help="one of `drygrad launches`: its name, or README.md:12")
    what.add_argument("--inputs", metavar="ARGS", help='the arguments, e.g. "x=torch.randn(8, 10), self=Net(10)"')
    what.add_argument("--seed", type=int, default=0, metavar="N", help="for the random numbers (default: 0)")
    what.add_argument(
        "--ranks",
        type=_positive,
        metavar="N",
        help="as how many ranks torchrun launches it: these are compared, 8 at most (default: what it asks for, or 2)",
    )
    where = run.add_argument_group("where to run it")
    where.add_argument("--python", metavar="P", help="the interpreter, or its environment (default: the project's)")
    where.add_argument("--device", choices=("auto", "cuda", "sim", "cpu"))
    where.add_argument(
        "--launcher",
        type=_words,
        default=(),
        metavar="CMD",
        help='a command that starts the interpreter, e.g. "srun --gres=gpu:1"',
    )
    _bounds(run.add_argument_group("bounds"))
    fixes = run.add_argument_group("fixes")
    fixes.add_argument("--fix", action="store_true", help="apply the safe fixes that were tried and hold")
    fixes.add_argument("--unsafe-fixes", action="store_true", help="apply the unsafe ones that hold, too")
    fixes.add_argument("--diff", action="store_true", help="show what fixing would change, and write nothing")
    output = run.add_argument_group("output")
    output.add_argument("--watch", action="store_true", help="run again what changes, until Ctrl-C")
    output.add_argument("--output-format", choices=("text", "json", "sarif", "github"), default="text")
    output.add_argument("--fail-on", choices=SEVERITIES, default="warning", help="gravity from which the status is 1")
    output.add_argument("--no-progress", dest="progress", action="store_false", help="show no progress line")


def _bounds(bounds: argparse._ArgumentGroup) -> None:  # pyright: ignore[reportPrivateUsage]
    bounds.add_argument(
        "--timeout", type=_seconds, metavar="S", help="seconds for one run, beside imports (default: 30)"
    )
    bounds.add_argument("--search-time", type=_seconds, metavar="S", help="seconds to search inputs (default: 2)")
    bounds.add_argument(
        "--program-time",
        type=_seconds_or_none,
        metavar="S",
        help="seconds for a program of the project to call the function that is run (default: 10; 0: none is run)",
    )
    bounds.add_argument(
        "--experiment-time",
        type=_seconds_or_none,
        metavar="S",
        help="seconds for experiments after a run that passed (default: 5; 0: none)",
    )
    bounds.add_argument(
        "--verify-time", type=_seconds, metavar="S", help="seconds to try fixes after a run (default: 10)"
    )
    bounds.add_argument(
        "--memory-limit", type=_bytes, metavar="SIZE", help="that a run may take (default: most of what is free)"
    )
    bounds.add_argument("--gpu-memory", type=_bytes, metavar="SIZE", help="of the GPU to simulate, or to use: 24GiB")


def _codes(text: str) -> tuple[str, ...]:
    return tuple(code.upper() for code in re.split(r"[,\s]+", text) if code)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _seconds(text: str) -> float:
    seconds = _seconds_or_none(text)
    if seconds == 0:
        raise argparse.ArgumentTypeError("must be more than 0")
    return seconds


def _seconds_or_none(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected seconds, got {text!r}") from None
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError("must be 0 or more")
    return seconds


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port < 1 << 16:
        raise argparse.ArgumentTypeError("must be from 0 (any that is free) to 65535")
    return port


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"not a command line: {error}") from error


def _bytes(text: str) -> int:
    try:
        return byte_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
