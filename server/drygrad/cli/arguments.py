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

EPILOG = "Exit status: 0 no error or warning (see --fail-on), 1 findings, 2 drygrad could not do its job."

RUN_EPILOG = f"{EPILOG} A run writes nothing outside its sandbox and has no network."


_STARTING = ("run", "forecast")
"""Commands that may be followed by the command line of a program."""
FORECAST_EPILOG = (
    "Exit status: 0 it fits (or no GPU was named), 1 it does not fit, 2 no forecast was possible. The program "
    "is traced in a sandbox at its real size, without its memory and arithmetic."
)

_RUNS = ("PATH[::QUALNAME] [-- ARGUMENTS]", "-m MODULE [-- ARGUMENTS]", "-- COMMAND")


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """Return what was typed; behind ``--``, where a run has it, stands a command line that is not ours."""
    own, others = _split(words) if words and words[0] in _STARTING else (words, None)
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
        "drygrad", description="Find PyTorch faults before you launch the job.", epilog=EPILOG, allow_abbrev=False
    )
    top.add_argument("--version", action="version", version=f"drygrad {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _check(commands.add_parser("check", help="check files and folders", epilog=EPILOG, allow_abbrev=False))
    _run(commands.add_parser("run", help="execute functions under instruments", epilog=RUN_EPILOG, allow_abbrev=False))
    _forecast(commands.add_parser("forecast", help="forecast what a program needs on a GPU", epilog=FORECAST_EPILOG))
    launches = commands.add_parser("launches", help="list how the project's programs are launched", epilog=EPILOG)
    launches.add_argument("path", nargs="?", default=".", metavar="PATH", help="a folder or a program (default: here)")
    launches.add_argument("--output-format", choices=("text", "json"), default="text")
    explain = commands.add_parser("explain", help="explain a rule")
    explain.add_argument("rule", metavar="CODE|NAME", help="DG101, or inplace-on-saved-tensor")
    rules = commands.add_parser("rules", help="list the rules")
    rules.add_argument("--select", type=_codes, metavar="CODES", help="only these rules, e.g. DG1,DG304")
    rules.add_argument("--search", metavar="WORDS", help="only rules whose page has all of these words")
    rules.add_argument("--output-format", choices=("text", "json"), default="text")
    doctor = commands.add_parser("doctor", help="show what drygrad finds on this machine")
    doctor.add_argument("--python", metavar="P", help="the interpreter to inspect (default: the project's)")
    doctor.add_argument("--launcher", type=_words, default=(), metavar="CMD", help="try the way to another machine")
    doctor.add_argument("--trust", action="store_true", help="start the project's own .venv to inspect it")
    doctor.add_argument("path", nargs="?", default=".", help="a file or folder of the project (default: here)")
    server = commands.add_parser("server", help="run the language server (editors do this)")
    server.add_argument("--stdio", action="store_true", help="use stdin and stdout (the default)")
    server.add_argument("--tcp", type=_port, metavar="PORT", help="listen on a local port, for debugging")
    server.add_argument("--log-file", type=Path, metavar="FILE", help="write the log to this file instead of stderr")
    server.add_argument("--log-level", choices=("error", "warning", "info", "debug"), default="info")
    _mcp(commands.add_parser("mcp", help="serve coding agents (Model Context Protocol, on stdin and stdout)"))
    completion = commands.add_parser("completion", help="print a shell completion script")
    completion.add_argument("shell", choices=("bash", "zsh", "tcsh"))
    init = commands.add_parser("init", help="set up a project; existing files and settings are kept")
    init.add_argument("folder", nargs="?", type=Path, default=Path(), metavar="FOLDER", help="(default: here)")
    init.add_argument("--pre-commit", action="store_true", help="also a hook in .pre-commit-config.yaml")
    init.add_argument("--workflow", action="store_true", help="also a workflow for GitHub Actions")
    return top


def _mcp(mcp: argparse.ArgumentParser) -> None:
    mcp.add_argument(
        "folders", nargs="*", type=Path, metavar="FOLDER", help="the only files agents may name (default: here)"
    )
    mcp.add_argument("--trust", action="store_true", help="allow dry runs, which execute the code of these folders")
    mcp.add_argument("--python", metavar="P", help="the interpreter for dry runs (default: the project's)")
    mcp.add_argument("--launcher", type=_words, default=(), metavar="CMD", help="where its runs happen, as for `run`")


def _check(check: argparse.ArgumentParser) -> None:
    check.add_argument("paths", nargs="*", default=["."], metavar="PATH", help="files, folders, or - for stdin")
    fixes = check.add_argument_group("fixes")
    fixes.add_argument("--fix", action="store_true", help="apply the safe fixes")
    fixes.add_argument("--unsafe-fixes", action="store_true", help="apply the unsafe fixes too")
    fixes.add_argument("--diff", action="store_true", help="show what fixing would change, without writing")
    rules = _rules(check)
    rules.add_argument("--write-baseline", action="store_true", help="write the current findings to the baseline")
    files = check.add_argument_group("files")
    files.add_argument("--stdin-filename", metavar="NAME", default="<stdin>", help="the file name of stdin")
    files.add_argument(
        "--force-exclude", action="store_true", help="leave out what the settings exclude, even if it is named here"
    )
    files.add_argument(
        "--no-gitignore", dest="gitignore", action="store_false", help="check files that git ignores too"
    )
    files.add_argument("--no-cache", dest="cache", action="store_false", help="check unchanged files again")
    files.add_argument("--jobs", type=_positive, metavar="N", help="processes (default: as many as worthwhile)")
    output = check.add_argument_group("output")
    output.add_argument("--output-format", choices=("text", "json", "sarif", "github"), default="text")
    output.add_argument("--fail-on", choices=SEVERITIES, default="warning", help="lowest severity for exit status 1")
    output.add_argument("--no-progress", dest="progress", action="store_false", help="hide the progress bar")
    output.add_argument("-q", "--quiet", action="store_true", help="print nothing if there is nothing to report")


def _rules(command: argparse.ArgumentParser) -> argparse._ArgumentGroup:  # pyright: ignore[reportPrivateUsage]
    rules = command.add_argument_group("rules")
    rules.add_argument("--select", type=_codes, metavar="CODES", help="report only these rules, e.g. DG1,DG304")
    rules.add_argument("--ignore", type=_codes, metavar="CODES", default=(), help="do not report these rules")
    rules.add_argument("--baseline", type=Path, metavar="FILE", help="leave out the findings listed in this file")
    rules.add_argument("--no-baseline", dest="use_baseline", action="store_false", help="report known findings too")
    return rules


def _run(run: argparse.ArgumentParser) -> None:
    run.usage = f"\n{' ' * 7}".join(f"drygrad run [options] {what}" for what in _RUNS)
    run.add_argument(
        "target",
        nargs="?",
        metavar="PATH[::QUALNAME]",
        help="a function, such as train.py::Net.forward; a file or folder: every function with inputs, then the "
        "scripts; with arguments after `--`: the script alone, with these arguments",
    )
    what = _what(run)
    what.add_argument(
        "--ranks",
        type=_positive,
        metavar="N",
        help="number of torchrun ranks; up to 8 are compared (default: as launched, or 2)",
    )
    where = _where(run)
    where.add_argument("--device", choices=("auto", "cuda", "sim", "cpu"))
    _bounds(run.add_argument_group("bounds"))
    _rules(run)
    fixes = run.add_argument_group("fixes")
    fixes.add_argument("--fix", action="store_true", help="apply verified safe fixes")
    fixes.add_argument("--unsafe-fixes", action="store_true", help="apply verified unsafe fixes too")
    fixes.add_argument("--diff", action="store_true", help="show what fixing would change, without writing")
    output = run.add_argument_group("output")
    output.add_argument("--watch", action="store_true", help="run again when files change, until Ctrl-C")
    output.add_argument("--output-format", choices=("text", "json", "sarif", "github"), default="text")
    output.add_argument("--fail-on", choices=SEVERITIES, default="warning", help="lowest severity for exit status 1")
    output.add_argument("--no-progress", dest="progress", action="store_false", help="hide the progress line")


def _forecast(forecast: argparse.ArgumentParser) -> None:
    forecast.usage = f"\n{' ' * 7}".join(f"drygrad forecast [options] {what}" for what in _RUNS)
    forecast.add_argument(
        "target",
        nargs="?",
        metavar="PATH[::QUALNAME]",
        help="a function, such as train.py::train; a file: its script",
    )
    _what(forecast).add_argument(
        "--ranks",
        type=_positive,
        metavar="N",
        help="number of ranks, of which the first is traced (default: as launched)",
    )
    where = _where(forecast)
    where.add_argument(
        "--gpu",
        metavar="NAME",
        help="the GPU to forecast for: H100-80GB, rtx4090, or a size: 24GiB (default: the project's)",
    )
    _bounds(forecast.add_argument_group("bounds"))
    where.add_argument("--what-if", action="store_true", help="trace it again with what could take less memory")
    output = forecast.add_argument_group("output")
    output.add_argument("--output-format", choices=("text", "json"), default="text")
    output.add_argument(
        "--memory-plot", type=_picture, metavar="FILE", help="draw the memory over time: FILE.svg or FILE.png"
    )
    output.add_argument("--no-progress", dest="progress", action="store_false", help="hide the progress line")
    forecast.set_defaults(device=None, select=None, ignore=(), baseline=None, use_baseline=False)


def _what(command: argparse.ArgumentParser) -> argparse._ArgumentGroup:  # pyright: ignore[reportPrivateUsage]
    what = command.add_argument_group("what to run")
    what.add_argument("-m", dest="module", metavar="MODULE", help="a module, as in `python -m`")
    what.add_argument("--launch", metavar="NAME", help="one of `drygrad launches`, by name or place (README.md:12)")
    what.add_argument("--inputs", metavar="ARGS", help='the arguments, e.g. "x=torch.randn(8, 10), self=Net(10)"')
    what.add_argument("--seed", type=int, default=0, metavar="N", help="for random numbers (default: 0)")
    return what


def _where(command: argparse.ArgumentParser) -> argparse._ArgumentGroup:  # pyright: ignore[reportPrivateUsage]
    where = command.add_argument_group("where to run it")
    where.add_argument("--python", metavar="P", help="the interpreter or its environment (default: the project's)")
    where.add_argument(
        "--launcher",
        type=_words,
        default=(),
        metavar="CMD",
        help='on another machine: "ssh host", "srun --gres=gpu:1", "docker exec box", or a profile of the settings',
    )
    return where


def _bounds(bounds: argparse._ArgumentGroup) -> None:  # pyright: ignore[reportPrivateUsage]
    bounds.add_argument(
        "--timeout", type=_seconds, metavar="S", help="time limit of a run, excluding imports (default: 30)"
    )
    bounds.add_argument(
        "--search-time", type=_seconds, metavar="S", help="time limit of the search for inputs (default: 2)"
    )
    bounds.add_argument(
        "--program-time",
        type=_seconds_or_none,
        metavar="S",
        help="how long a script of the project may run until it calls the target (default: 10; 0: do not run any)",
    )
    bounds.add_argument(
        "--experiment-time",
        type=_seconds_or_none,
        metavar="S",
        help="time limit for experiments after a run that passed (default: 5; 0: none)",
    )
    bounds.add_argument(
        "--verify-time", type=_seconds, metavar="S", help="time limit for verifying fixes after a run (default: 10)"
    )
    bounds.add_argument(
        "--memory-limit", type=_bytes, metavar="SIZE", help="memory limit of a run (default: most of the free memory)"
    )
    bounds.add_argument("--gpu-memory", type=_bytes, metavar="SIZE", help="memory of the GPU to simulate or use: 24GiB")


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
        raise argparse.ArgumentTypeError("must be from 0 (any free port) to 65535")
    return port


def _picture(text: str) -> Path:
    path = Path(text)
    if path.suffix not in (".svg", ".png"):
        raise argparse.ArgumentTypeError("the plot is written as SVG or PNG: name a file that ends in .svg or .png")
    return path


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
