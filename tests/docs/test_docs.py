"""The pages made from the code are those of the code, and what the README says can be followed."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from cli_harness import ROOT, run_program

from drygrad.options import OPTIONS, Option
from drygrad.project import load_project
from drygrad.static.registry import all_rules
from drygrad.static.source import Source


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    return tool("make_docs")


def test_the_pages_are_fresh(maker: ModuleType) -> None:
    assert maker.stale(ROOT / "docs") == []


def test_stale_missing_and_surplus_pages_are_noticed_and_settled(maker: ModuleType, tmp_path: Path) -> None:
    maker.write(tmp_path)
    assert maker.stale(tmp_path) == []
    (tmp_path / "rules" / "DG000.md").write_text("gone")
    (tmp_path / "settings.md").write_text("old")
    (tmp_path / "rules" / "DG906.md").unlink()
    assert [str(path) for path in maker.stale(tmp_path)] == ["rules/DG000.md", "rules/DG906.md", "settings.md"]
    maker.write(tmp_path)
    assert maker.stale(tmp_path) == []


def test_every_rule_has_a_page_and_a_row(maker: ModuleType) -> None:
    made = {str(path): text for path, text in maker.pages().items()}
    for rule in all_rules():
        assert f"({rule.code}.md)" in made["rules/README.md"]
        assert rule.documentation().text in made[f"rules/{rule.code}.md"]


@pytest.mark.parametrize("option", [o for o in OPTIONS if o.stands_in("file")], ids=lambda option: option.name)
def test_the_example_of_a_setting_is_one_that_holds(option: Option, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.drygrad]\n{option.example}\n")
    wrong = [p.message for p in load_project(tmp_path).problems if "no rule has the code" not in p.message]
    assert wrong == []


def test_the_readme_shows_what_a_check_prints() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```console\n\$ drygrad (check .*)\n((?s:.*?))^```$", readme, re.MULTILINE)
    assert shown
    for command, output in shown:
        assert run_program(*command.split(), cwd=ROOT).out == output


def test_the_readme_shows_what_a_run_prints() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```console\n\$ drygrad (run .*)\n((?s:.*?))^```$", readme, re.MULTILINE)
    assert shown
    for command, output in shown:
        done = run_program(*command.split(), "--device", "sim", "--python", sys.executable, cwd=ROOT)
        assert _findings(done.out) == _findings(output)
        assert "passed on sim" in output


def test_the_readme_shows_what_the_demo_prints() -> None:
    """Whole lines may be left out where it says ``...``; what runs took is not compared."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"^```console\n\$ make demo\n((?s:.*?))^```$", readme, re.MULTILINE)
    recipe = re.search(r"^demo:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert shown and recipe
    printed = ""
    for command in re.findall(r"\$\(BIN\)/drygrad (.*?) \|\|", recipe[1]):
        done = run_program(*command.replace(".venv", sys.prefix).split(), cwd=ROOT)
        assert (done.status, done.err) == (1, "")
        printed += f"$ drygrad {command}\n{done.out}\n"
    pattern = re.escape(_timeless(shown[1]) + "\n").replace(re.escape("...\n"), "(?s:.*?)")
    assert re.fullmatch(pattern, _timeless(printed)), printed


def _timeless(text: str) -> str:
    return re.sub(r" in \d+(\.\d+)? m?s\b", " in N s", text)


def _findings(text: str) -> str:
    """The part that does not depend on the machine: what stands before the first run."""
    return text.partition("\n\n")[0]


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_to_files_lead_somewhere(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    assert [link for link in links if link and not (ROOT / link).exists()] == []


def test_the_facts_of_a_line_can_be_shown() -> None:
    source = Source("import torch\nx = torch.zeros(2, 3)\nx.add_(1)\n")
    value, *_, event = tool("show_facts").facts_of(source, 3, 3)
    assert value.startswith("3:0 x = Tensor(shape=(2, 3), dtype='float32'")
    assert event.startswith("3:0 InplaceWrite(")


def test_the_readme_names_commands_that_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    named = set(re.findall(r"^drygrad (\w+)", "\n".join(blocks), re.MULTILINE))
    assert {"check", "doctor"} <= named <= set(re.findall(r"\w+", run_program("--help", cwd=ROOT).out))


def test_each_text_of_the_extension_has_a_key_that_is_used_and_translations_have_no_others() -> None:
    folder = ROOT / "editor-client" / "vscode"
    manifest = (folder / "package.json").read_text(encoding="utf-8")
    texts: dict[str, str] = json.loads((folder / "package.nls.json").read_text(encoding="utf-8"))
    assert set(re.findall(r'"%([\w.]+)%"', manifest)) == set(texts)
    assert not re.search(r'"(title|markdownDescription|description)": "(?!%|drygrad")', manifest)
    for translation in folder.glob("package.nls.*.json"):
        assert set(json.loads(translation.read_text(encoding="utf-8"))) <= set(texts)
