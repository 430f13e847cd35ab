"""``drygrad init``: a project's settings, and on request a hook and a workflow. It adds, and never changes."""

from __future__ import annotations

import argparse
import json
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from drygrad.addresses import REPOSITORY, page_at
from drygrad.files import write_atomically
from drygrad.options import OPTIONS, Option
from drygrad.version import __version__

from .errors import Failure, complain

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SETTINGS = "pyproject.toml"
HOOKS = ".pre-commit-config.yaml"
WORKFLOW = ".github/workflows/drygrad.yml"
_WIDTH = 100


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return the exit status: 2 where something is left to do by hand."""
    folder: Path = arguments.folder
    if not folder.is_dir():
        raise Failure(f"{folder}: no such folder")
    done = [_settings(folder)]
    if arguments.pre_commit:
        done.append(_hook(folder))
    if arguments.workflow:
        done.append(_workflow(folder))
    return 0 if all(done) else 2


def _settings(folder: Path) -> bool:
    path = folder / SETTINGS
    before = _read(path)
    try:
        if "drygrad" in tomllib.loads(before).get("tool", {}):
            return _said(path, "already has [tool.drygrad]; left unchanged")
    except tomllib.TOMLDecodeError as error:
        complain(f"{path}: not valid TOML: {error}")
        return False
    after = f"{before}{_gap(before)}{settings_text()}"
    try:
        tomllib.loads(after)
    except tomllib.TOMLDecodeError:
        complain(f"{path}: its `tool` can have no further table: add [tool.drygrad] by hand")
        return False
    _write(path, after, folder)
    return _said(path, "[tool.drygrad] added" if before else "written")


def settings_text() -> str:
    """Return the tables of the settings, each setting as a comment with an example."""
    lines = [
        "[tool.drygrad]",
        f"# All settings: {page_at('docs/settings.md')}",
        *_examples("file"),
        "",
        "[tool.drygrad.run]",
        "# How `drygrad run` and editors execute the code of this project.",
        *_examples("run"),
    ]
    return "\n".join(lines) + "\n"


def _examples(place: str) -> Iterator[str]:
    for option in OPTIONS:
        if option.stands_in("file" if place == "file" else "run"):
            first = re.split(r"(?<=\.)\s", option.description, maxsplit=1)[0]
            yield "#"
            yield from textwrap.wrap(first, _WIDTH, initial_indent="# ", subsequent_indent="# ")
            yield f"# {_example(option)}"


def _example(option: Option) -> str:
    """Return a line of TOML; the value of an editor's example means the same there."""
    if not option.example.startswith('"drygrad.'):
        return option.example
    (value,) = json.loads(f"{{{option.example}}}").values()
    return f"{option.name} = {_toml(value)}"


def _toml(value: object) -> str:
    """Return a value in TOML, which writes tables in its own way."""
    if not isinstance(value, dict):
        return json.dumps(value)
    return f"{{ {', '.join(f'{name} = {_toml(one)}' for name, one in cast('dict[str, object]', value).items())} }}"


def hook_text(indent: str = "  ") -> str:
    """Return the entry of pre-commit's list of repositories."""
    lines = (f"- repo: {REPOSITORY}", f"  rev: v{__version__}", "  hooks:", "    - id: drygrad")
    return "".join(f"{indent}{line}\n" for line in lines)


def _hook(folder: Path) -> bool:
    path = folder / HOOKS
    before = _read(path)
    if re.search(r"^\s*-?\s*id:\s*drygrad\b", before, re.MULTILINE):
        return _said(path, "already has the hook; left unchanged")
    if not before.strip():
        _write(path, f"repos:\n{hook_text()}", folder)
        return _said(path, "written; `pre-commit install` activates it")
    indent = _indent_of_repositories(before)
    if indent is None:
        complain(f"{path}: add this to its repositories by hand:\n{hook_text()}")
        return False
    _write(path, f"{before}{_gap(before, lines=0)}{hook_text(indent)}", folder)
    return _said(path, "the hook added")


def _indent_of_repositories(text: str) -> str | None:
    """Return how the entries of `repos:` are indented, where the file ends with them; None where it does not."""
    keys = re.findall(r"^([A-Za-z_]\w*):(.*)$", text, re.MULTILINE)
    if not keys or keys[-1][0] != "repos" or keys[-1][1].split("#")[0].strip():
        return None
    entry = re.search(r"^( *)- (?:repo|hooks|rev):", text, re.MULTILINE)
    return entry[1] if entry else None


def workflow_text() -> str:
    """Return a workflow of GitHub Actions that checks each push and pull request."""
    owner = REPOSITORY.partition("github.com/")[2]
    return f"""\
name: drygrad
on:
  push:
  pull_request:
permissions:
  contents: read
  # security-events: write  # for `sarif: true`
jobs:
  drygrad:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: {owner}@v{__version__}
        # with:
        #   paths: src
        #   fail-on: error
        #   sarif: true  # findings in the repository's Security tab
"""


def _workflow(folder: Path) -> bool:
    path = folder / WORKFLOW
    if path.exists():
        return _said(path, "already exists; left unchanged")
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, workflow_text(), folder)
    return _said(path, "written")


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{path}: cannot read: {error}") from error


def _write(path: Path, text: str, folder: Path) -> None:
    data = text.encode("utf-8")
    try:
        if path.exists():
            write_atomically(path, data, within=folder)
        else:
            with path.open("xb") as file:  # a link that leads nowhere is somebody's
                file.write(data)
    except OSError as error:
        raise Failure(f"{path}: cannot write: {error.strerror or error}") from error


def _gap(before: str, lines: int = 1) -> str:
    """Return what ends the last line of a text, and some empty ones behind it."""
    if not before:
        return ""
    return ("" if before.endswith("\n") else "\n") + "\n" * lines


def _said(path: Path, what: str) -> bool:
    sys.stdout.write(f"{path}: {what}\n")
    return True
