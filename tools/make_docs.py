"""Write what is made from the code: pages of the rules, their index, the settings, and those of the VS Code extension.

``python tools/make_docs.py`` writes them; with ``--check`` it only says which ones are stale.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from extension_texts import texts

from drygrad.addresses import page_at
from drygrad.cli.formats.json_schema import report_schema
from drygrad.documentation import page
from drygrad.model import Rule
from drygrad.options import OPTIONS, Option
from drygrad.settings import EditorSettings
from drygrad.static.registry import all_rules

DOCS = Path(__file__).resolve().parents[1] / "docs"
FAMILIES = {
    "1": "Autograd and in-place writes",
    "2": "Devices",
    "3": "Losses, shapes, dtypes and index ranges",
    "4": "Numerics",
    "5": "Memory",
    "6": "Synchronization, hangs and speed",
    "7": "Training loop, mixed precision and modules",
    "8": "API, data and security",
    "9": "Experiments, and drygrad's own reports",
}
FOUND_IN_PICTURE = "DG923"
FOUND = (
    '<img src="../images/experiment.png" width="900" alt="VS Code: under attention without batch_first, drygrad says '
    'that in a batch of 7 sample 0 changes sample 3 here; the lens says that the run passed, with 1 finding.">'
)
PANEL = """\
The result panel lists what held, what is broken and where, and what was not tried and why:

<picture>
<source media="(prefers-color-scheme: dark)" srcset="../images/relations_dark.png">
<img src="../images/relations_light.png" width="845" alt="The relations of a run: samples stand alone is
broken at line 15; fourteen held; padding is silent was not tried: none of its inputs are marked as padded.">
</picture>"""
MANIFEST = Path("editor-client", "vscode", "package.json")
NAMES = MANIFEST.with_name("package.nls.json")
BUNDLE = MANIFEST.with_name("l10n") / "bundle.l10n.json"
EDITOR_ONLY = frozenset({"trusted"})
"""Settings that the extension fills in by itself."""
NOTE = "<!-- Made by `make docs`; do not edit. -->\n\n"


def pages() -> dict[Path, str]:
    """Return the text of every page by its path below ``docs``."""
    rules = all_rules()
    made = {Path("rules", f"{rule.code}.md"): NOTE + page(rule) + pictures(rule) for rule in rules}
    extension = {Path("..", MANIFEST): manifest(), Path("..", NAMES): names(), Path("..", BUNDLE): _json(texts())}
    schemas = {
        Path("report.schema.json"): _json(report_schema()),
        Path("settings.schema.json"): _json(settings_schema()),
    }
    return {**made, Path("rules/README.md"): index(rules), Path("settings.md"): settings(), **schemas, **extension}


def settings_schema() -> dict[str, Any]:
    """Return the JSON Schema of `[tool.drygrad]`, in the form that SchemaStore takes."""
    tables = {place: [o for o in OPTIONS if o.stands_in(place)] for place in ("file", "run")}
    run = {
        "type": "object",
        "title": "Dry runs",
        "description": "How `drygrad run` and editors execute the code of this project.",
        "properties": {option.name: _described(option) for option in tables["run"]},
        "additionalProperties": False,
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "https://json.schemastore.org/partial-drygrad.json",
        "title": "drygrad",
        "description": f"Settings of drygrad ({page_at('docs/settings.md')})",
        "type": "object",
        "properties": {**{option.name: _described(option) for option in tables["file"]}, "run": run},
        "additionalProperties": False,
    }


def _described(option: Option) -> dict[str, Any]:
    unit = f" In {option.kind}." if option.kind in ("seconds", "GiB") else ""
    described = {**option.schema, "description": option.description + unit}
    try:
        return {**described, "default": json.loads(option.default)}
    except ValueError:  # in words
        enumerated = option.default in option.schema.get("enum", ())
        return {**described, "default": option.default} if enumerated else described


def _json(data: Any) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def pictures(rule: type[Rule]) -> str:
    """Return what the page of a relation shows of the editor; nothing for other rules."""
    if not rule.relation:
        return ""
    found = f"{FOUND}\n\n" if rule.code == FOUND_IN_PICTURE else ""
    return f"\n## In the editor\n{found}{PANEL}\n"


def index(rules: tuple[type[Rule], ...]) -> str:
    """Return the table of the rules, family by family."""
    lines = [
        f"{NOTE}# Rules\n",
        f"drygrad has {len(rules)} rules. The last column says whether `drygrad check` offers a fix.\n",
    ]
    for digit, title in FAMILIES.items():
        family = [rule for rule in rules if rule.code[2] == digit]
        if family:
            lines += [f"## {title}\n", "| code | name | finds | severity | fix |", "|---|---|---|---|---|"]
            lines += [*(_row(rule) for rule in family), ""]
    return "\n".join(lines)


def _row(rule: type[Rule]) -> str:
    summary = rule.documentation().summary.replace("|", "\\|")
    fix = "yes" if rule.has_fix() else ""
    return f"| [{rule.code}]({rule.code}.md) | {rule.name} | {summary} | {rule.severity} | {fix} |"


def settings() -> str:
    """Return the page of the settings."""
    shared = [option for option in OPTIONS if option.stands_in("file")]
    of_runs = [option for option in OPTIONS if option.stands_in("run")]
    personal = [option for option in OPTIONS if option.stands_in("editor")]
    return "".join(
        [
            f"{NOTE}# Settings\n\n",
            "A project's settings stand in `[tool.drygrad]` of its `pyproject.toml`. ",
            "The nearest one above a file holds. ",
            "What is wrong is reported where it stands, and the default is used instead. ",
            "`drygrad init` writes the table with an example of each; ",
            "[settings.schema.json](settings.schema.json) is its JSON Schema.\n\n",
            *_section(shared),
            "## For dry runs\n\n",
            "What a project sets for its dry runs stands in `[tool.drygrad.run]`. An option of `drygrad run` goes ",
            "before it, and it goes before what an editor sets.\n\n",
            *_table(of_runs, lambda option: option.name),
            '\n```toml\n[tool.drygrad.run]\nlaunch = "small"\nlaunches = { small = "torchrun --nproc-per-node 4 ',
            'train.py --config small.yaml" }\nenvironment = { DATA = "data/small" }\ntimeout = 60\n```\n\n',
            "## In the editor\n\n",
            "An editor sends its settings under `drygrad`, in camelCase. Where a project sets one, too, the project's ",
            "holds, so that everyone sees the same findings.\n\n",
            *_table(personal, lambda option: f"drygrad.{option.editor_name}"),
        ]
    )


def _section(options: list[Option]) -> Iterator[str]:
    for option in options:
        yield f"## `{option.name}`\n\n{option.description}\n\n"
        yield f"Type: {option.kind} · default: `{option.default}`\n\n```toml\n{option.example}\n```\n\n"


def _table(options: list[Option], name: Callable[[Option], str]) -> Iterator[str]:
    yield "| setting | type | default | |\n|---|---|---|---|\n"
    for option in options:
        yield f"| `{name(option)}` | {option.kind} | `{option.default}` | {option.description} |\n"


def manifest() -> str:
    """Return the extension's package.json with the settings of the table; its own settings stay behind them."""
    data = json.loads((DOCS.parent / MANIFEST).read_text(encoding="utf-8"))
    configuration = data["contributes"]["configuration"]
    offered = {f"drygrad.{option.editor_name}": option for option in _offered()}
    own = {name: value for name, value in configuration["properties"].items() if "x-own" in value}
    configuration["properties"] = {name: _property(option) for name, option in offered.items()} | own
    return _json(data)


def names() -> str:
    """Return the extension's texts by their keys, in English: those of the table's settings behind its own."""
    data: dict[str, str] = json.loads((DOCS.parent / NAMES).read_text(encoding="utf-8"))
    table = {f"setting.{option.editor_name}": _text(option) for option in _offered()}
    return _json({key: text for key, text in data.items() if key not in table} | table)


def _offered() -> list[Option]:
    return [option for option in OPTIONS if option.stands_in("editor") and option.name not in EDITOR_ONLY]


def _text(option: Option) -> str:
    unit = f" In {option.kind}." if option.kind in ("seconds", "milliseconds", "GiB") else ""
    return option.description + unit


def _property(option: Option) -> dict[str, Any]:
    path = option.name in ("interpreter", "launcher")
    scope = "machine-overridable" if path else "resource" if option.scope == "both" else "window"
    described = {**option.schema, "scope": scope, "markdownDescription": f"%setting.{option.editor_name}%"}
    default = getattr(EditorSettings(), option.attribute, None)
    if isinstance(default, float) and default.is_integer():
        default = int(default)  # as npm writes it
    if isinstance(default, bool | int | float | str):
        return {**described, "default": default}
    # Null means "not set": VS Code's own default for a list is an empty one, which would select no rule.
    kinds = option.schema["type"]
    return {**described, "type": [*([kinds] if isinstance(kinds, str) else kinds), "null"], "default": None}


def stale(folder: Path) -> list[Path]:
    """Return the pages that are missing, old, or of rules that are gone."""
    made = pages()
    there = {path.relative_to(folder) for path in folder.glob("rules/*.md")}
    old = [path for path, text in made.items() if not _holds(folder / path, text)]
    return sorted([*old, *(there - set(made))])


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def write(folder: Path) -> None:
    """Bring all pages up to date."""
    made = pages()
    for path in stale(folder):
        if path not in made:
            (folder / path).unlink()
            continue
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(made[path], encoding="utf-8", newline="\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 if a page is stale")
    if not parser.parse_args().check:
        write(DOCS)
        return 0
    old = stale(DOCS)
    for path in old:
        sys.stderr.write(f"docs/{path} is stale: run `make docs`\n")
    return int(bool(old))


if __name__ == "__main__":
    sys.exit(main())
