"""Settings: what a user writes, and what is said when it is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from drygrad.model import Position
from drygrad.options import OPTIONS, validate
from drygrad.project import load_project
from drygrad.settings import EditorSettings, RunSettings, Settings
from drygrad.toml_places import Places


def write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    return folder


def test_every_option_is_a_field_and_every_field_an_option() -> None:
    fields = set(Settings.__dataclass_fields__) | set(EditorSettings.__dataclass_fields__)
    of_runs = set(RunSettings.__dataclass_fields__)
    assert {option.attribute for option in OPTIONS} == fields | of_runs
    assert {option.attribute for option in OPTIONS if option.stands_in("run")} == of_runs
    assert {option.attribute for option in OPTIONS if option.stands_in("editor")} >= set(
        EditorSettings.__dataclass_fields__
    )


def test_all_settings_are_read(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        [tool.drygrad]
        select = ["DG9"]
        ignore = ["DG904"]
        severity = { DG904 = "warning" }
        exclude = ["third_party/"]
        target-torch = "2.4"
        baseline = "known.json"
        [tool.drygrad.per-file-ignores]
        "tests/**" = ["DG9"]
        """,
    )
    project = load_project(tmp_path / "a" / "train.py")
    assert project.problems == ()
    assert project.root == tmp_path
    assert project.settings == Settings(
        ("DG9",), ("DG904",), {"DG904": "warning"}, {"tests/**": ("DG9",)}, ("third_party/",), (2, 4), "known.json"
    )


@pytest.mark.parametrize(
    ("line", "column", "message"),
    [
        ('selekt = ["DG9"]', 0, "unknown setting `selekt`; did you mean `select`[?]"),
        ('select = "DG9"', 0, "`select`: expected a list of codes, got a text"),
        ('ignore = ["DG904", "DGX"]', 20, "`ignore`: no rule has the code `DGX`.*"),
        ('experiments = "all"', 0, "`experiments`: expected true, false or a list of codes, got a text"),
        ('experiments = ["DG921", "DG101"]', 25, "`experiments`: no experiment tries `DG101`; they try DG921, .*"),
        ('ignore = ["DG909"]', 11, "`ignore`: no rule has the code `DG909`; did you mean `DG9..`[?]"),
        ('ignore = ["syntax-error"]', 11, "`ignore`: `syntax-error` is a name; write its code, `DG906`"),
        (
            'severity = { DG904 = "loud" }',
            13,
            "`severity`: 'loud' is not a severity; use one of error, warning, info, hint",
        ),
        ('severity = "error"', 0, "`severity`: expected a table of codes and severities, got a text"),
        ("target-torch = 2.4", 0, '`target-torch`: expected a torch version such as "2.4", got 2.4'),
        ('target-torch = "new"', 0, "`target-torch`: expected a torch version such as \"2.4\", got 'new'"),
        ("baseline = 3", 0, "`baseline`: expected a text, got a number"),
        ('per-file-ignores = { "*.py" = ["DGX"] }', 32, "`per-file-ignores`: no rule has the code `DGX`.*"),
        ("debounce = 3", 0, "`debounce` is set in the editor, not in a file"),
    ],
)
def test_a_wrong_setting_is_reported_where_it_stands(tmp_path: Path, line: str, column: int, message: str) -> None:
    write(tmp_path, f"[project]\nname = 'x'\n\n[tool.drygrad]\n{line}\n")
    project = load_project(tmp_path)
    assert project.settings == Settings()
    (problem,) = project.problems
    assert (problem.line, problem.column) == (5, column)
    assert re.fullmatch(message, problem.message)


def test_a_wrong_setting_leaves_the_others_alone(tmp_path: Path) -> None:
    write(tmp_path, '[tool.drygrad]\nignore = ["DG9"]\nselect = 1\n')
    project = load_project(tmp_path)
    assert project.settings == Settings(ignore=("DG9",))
    assert [problem.line for problem in project.problems] == [3]


@pytest.mark.parametrize(
    ("text", "line"),
    [("[tool.drygrad]\nselect = [\n", 2), ("[tool.drygrad]\nselect == 1\n", 2), ("[tool.drygrad\n", 1)],
)
def test_broken_toml_is_one_problem_at_its_line(tmp_path: Path, text: str, line: int) -> None:
    project = load_project(write(tmp_path, text))
    (problem,) = project.problems
    assert problem.message.startswith("broken TOML: ")
    assert problem.line == line
    assert project.settings == Settings()


def test_a_file_that_is_not_utf8_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_bytes(b"[tool.drygrad]\nselect = ['\xff']\n")
    (problem,) = load_project(tmp_path).problems
    assert "UTF-8" in problem.message


def test_the_table_itself_may_be_wrong(tmp_path: Path) -> None:
    (problem,) = load_project(write(tmp_path, "[tool]\ndrygrad = 1\n")).problems
    assert (problem.line, problem.message) == (2, "`tool.drygrad` must be a table")


def test_the_nearest_table_wins_and_other_files_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path, '[tool.drygrad]\nignore = ["DG9"]\n')
    inner = write(tmp_path / "package", "[project]\nname = 'drygrad-free'\n")
    assert load_project(inner / "deep" / "train.py").root == tmp_path
    write(inner, "[tool.drygrad]\n")
    assert load_project(inner / "train.py").root == inner


def test_without_settings_the_repository_is_the_root(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "a").mkdir()
    project = load_project(tmp_path / "a" / "train.py")
    assert (project.root, project.config) == (tmp_path, None)


def test_per_file_ignores_win_over_select() -> None:
    settings = Settings(select=("DG101", "DG2"))
    assert settings.enabled("DG101")
    assert not settings.without(["DG1"]).enabled("DG101")
    assert settings.without(["DG1"]).enabled("DG201")


def test_per_file_ignores_apply_to_matching_files_only(tmp_path: Path) -> None:
    write(tmp_path, '[tool.drygrad]\nper-file-ignores = { "tests/**" = ["DG9"] }\n')
    project = load_project(tmp_path)
    assert not project.settings_for(tmp_path / "tests" / "a.py").enabled("DG904")
    assert project.settings_for(tmp_path / "a.py").enabled("DG904")


def test_exclude_names_files_and_folders(tmp_path: Path) -> None:
    project = load_project(write(tmp_path, '[tool.drygrad]\nexclude = ["old/", "gen_*.py"]\n'))
    assert project.excludes(tmp_path / "old", folder=True)
    assert project.excludes(tmp_path / "a" / "gen_x.py")
    assert not project.excludes(tmp_path / "old.py")


def test_the_longest_prefix_decides() -> None:
    settings = Settings(select=("DG3", "DG101"), ignore=("DG1", "DG304"), severity={"DG3": "info", "DG301": "hint"})
    assert [settings.enabled(code) for code in ("DG101", "DG102", "DG301", "DG304", "DG501")] == [1, 0, 1, 0, 0]
    assert [settings.severity_of(code, "error") for code in ("DG301", "DG302", "DG101")] == ["hint", "info", "error"]


def test_an_editor_writes_camel_case() -> None:
    validated = validate({"logLevel": "loud", "debounce": 20, "targetTorch": "2.4", "perFileIgnores": {}}, "editor")
    assert validated.values == {"debounce": 20, "target_torch": (2, 4)}
    assert [c.key for c in validated.complaints] == [("logLevel",), ("perFileIgnores",)]


@pytest.mark.parametrize("value", [True, -1, 2.5, "20", 100_000])
def test_a_wrong_debounce_is_refused(value: object) -> None:
    assert validate({"debounce": value}, "editor").complaints


def test_places_look_through_tables_dots_and_long_texts() -> None:
    text = 'a.b = 1\n[t]\nd = """\nx = 1\n"""\nx = 2\nc = [\n  "one",\n  "two",\n]\n["quoted key".u]\nv = 1\n'
    places = Places(text)
    assert places.find(("a", "b")) == Position(1, 0)
    assert places.find(("t", "x")) == Position(6, 0)
    assert places.find(("t", "c"), "two") == Position(9, 3)
    assert places.find(("quoted key", "u", "v")) == Position(12, 0)
    assert places.find(("nowhere",)) == Position(1, 0)


def test_what_a_project_sets_for_dry_runs(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        [tool.drygrad]
        ignore = ["DG9"]
        [tool.drygrad.run]
        launch = ["python", "train.py", "a b"]
        launches = { small = "python train.py" }
        arguments = ["--lr", "0.1"]
        environment = { A = "1" }
        device = "sim"
        timeout = 60
        gpu-memory = 24
        gpu = "rtx4090"
        """,
    )
    project = load_project(tmp_path)
    assert (project.problems, project.settings.ignore) == ((), ("DG9",))
    assert project.runs == RunSettings(
        launch="python train.py 'a b'",
        launches={"small": "python train.py"},
        arguments=("--lr", "0.1"),
        environment={"A": "1"},
        device="sim",
        timeout=60.0,
        gpu_memory=24.0,
        gpu="rtx4090",
    )


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("[tool.drygrad]\nrun = 1\n", 2, "`tool.drygrad.run` must be a table"),
        ("[tool.drygrad.run]\ndevise = 'sim'\n", 2, "unknown setting `devise`; did you mean `device`?"),
        ("[tool.drygrad.run]\ndevice = 'tpu'\n", 2, "`device`: 'tpu' is not a device; use one of auto, cuda, sim, cpu"),
        ("[tool.drygrad.run]\n\ntrusted = true\n", 3, "`trusted` is set in the editor, not in a file"),
        (
            "[tool.drygrad.run]\ngpu = 'h10'\n",
            2,
            "`gpu`: unknown GPU 'h10'; did you mean H100-80GB or A10 or H200 or A10G? A size such as 24GiB works too",
        ),
        ("[tool.drygrad.run]\nselect = ['DG1']\n", 2, "`select` is set in [tool.drygrad]"),
        ("[tool.drygrad]\ntimeout = 3\n", 2, "`timeout` is set in [tool.drygrad.run] or the editor"),
        ("[tool.drygrad]\narguments = []\n", 2, "`arguments` is set in [tool.drygrad.run]"),
        ("[tool.drygrad.run]\nenvironment = { A = 1 }\n", 2, "`environment`: expected a text for A, got a number"),
    ],
)
def test_a_wrong_setting_for_dry_runs_is_reported_where_it_stands(
    tmp_path: Path, text: str, line: int, message: str
) -> None:
    (problem,) = load_project(write(tmp_path, text)).problems
    assert (problem.line, problem.message) == (line, message)


def test_a_copy_without_its_repository_is_a_project_where_its_setup_is(tmp_path: Path) -> None:
    scripts = tmp_path / "copy" / "scripts"
    (scripts / "ops").mkdir(parents=True)
    (tmp_path / "copy" / "setup.py").touch()
    assert load_project(scripts / "train.py").root == tmp_path / "copy"
    (scripts / "ops" / "setup.py").touch()
    (tmp_path / ".git").mkdir()
    assert load_project(scripts / "ops" / "add.py").root == tmp_path, "what is built apart is no project of its own"
