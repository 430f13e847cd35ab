"""Which files a folder's check looks at."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from drygrad.walk import Projects, Walk


def make(root: Path, *names: str, **contents: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    for name, text in contents.items():
        (root / name).write_text(text)


def found(root: Path, *, gitignore: bool = True) -> list[str]:
    return [os.path.relpath(path, root) for path in Walk(Projects(), gitignore=gitignore).files(str(root))]


def test_python_files_and_notebooks_in_order(tmp_path: Path) -> None:
    make(tmp_path, "b.py", "a.py", "c.ipynb", "d.txt", "pkg/z.py", "pkg/a/x.py", "e.pyc", "e.pyi")
    assert found(tmp_path) == ["a.py", "b.py", "c.ipynb", "pkg/z.py", "pkg/a/x.py"]


@pytest.mark.parametrize(
    "folder", [".venv", "venv", "node_modules", "build", "dist", "__pycache__", ".git", ".hidden", "x.egg-info"]
)
def test_folders_nobody_wrote_are_skipped(tmp_path: Path, folder: str) -> None:
    make(tmp_path, "a.py", f"{folder}/b.py")
    assert found(tmp_path) == ["a.py"]
    assert found(tmp_path / folder) == ["b.py"]


def test_virtual_environments_are_known_by_their_mark(tmp_path: Path) -> None:
    make(tmp_path, "a.py", "env/pyvenv.cfg", "env/lib/b.py")
    assert found(tmp_path) == ["a.py"]


def test_gitignore_is_read_as_git_reads_it(tmp_path: Path) -> None:
    make(tmp_path, "a.py", "gen.py", "out/b.py", "pkg/gen.py", "pkg/keep/gen.py", "pkg/only.py", "pkg/sub/only.py")
    (tmp_path / ".gitignore").write_text("gen.py\n/out/\n# a comment\n")
    (tmp_path / "pkg" / ".gitignore").write_text("/only.py\n")
    (tmp_path / "pkg" / "keep" / ".gitignore").write_text("!gen.py\n")
    assert found(tmp_path) == ["a.py", "pkg/keep/gen.py", "pkg/sub/only.py"]
    assert len(found(tmp_path, gitignore=False)) == 7


def test_gitignore_above_the_folder_holds_up_to_the_repository(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    make(repository, "pkg/sub/a.py", "pkg/sub/gen.py", "pkg/sub/old.py")
    (tmp_path / ".gitignore").write_text("old.py\n")
    (repository / ".git").mkdir()
    (repository / ".gitignore").write_text("gen.py\n")
    assert found(repository / "pkg" / "sub") == ["a.py", "old.py"]


def test_the_exclude_setting_holds(tmp_path: Path) -> None:
    make(tmp_path, "a.py", "third/b.py", "pkg/third/c.py", "gen_1.py")
    (tmp_path / "pyproject.toml").write_text('[tool.drygrad]\nexclude = ["/third/", "gen_*"]\n')
    assert found(tmp_path) == ["a.py", "pkg/third/c.py"]


def test_a_folder_that_is_named_is_looked_into_though_it_is_excluded(tmp_path: Path) -> None:
    make(tmp_path, "examples/a.py", "examples/old/b.py", "examples/deep/old/c.py", "examples/deep/gen_1.py", "d.py")
    (tmp_path / "pyproject.toml").write_text('[tool.drygrad]\nexclude = ["examples", "/examples/old", "gen_*"]\n')
    assert found(tmp_path) == ["d.py"]
    assert found(tmp_path / "examples") == ["a.py", "deep/old/c.py"]
    assert found(tmp_path / "examples" / "deep") == ["old/c.py"]
    assert found(tmp_path / "examples" / "old") == ["b.py"]


def test_a_folder_that_is_named_is_looked_into_though_git_ignores_it(tmp_path: Path) -> None:
    make(tmp_path, "out/a.py", "out/gen.py", "out/deep/b.py", "c.py")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("/out/\ngen.py\n")
    assert found(tmp_path) == ["c.py"]
    assert found(tmp_path / "out") == ["a.py", "deep/b.py"]
    assert found(tmp_path / "out" / "deep") == ["b.py"]


def test_what_is_named_is_left_out_where_that_is_asked_for(tmp_path: Path) -> None:
    make(tmp_path, "examples/a.py", "b.py")
    (tmp_path / "pyproject.toml").write_text('[tool.drygrad]\nexclude = ["examples"]\n')
    walk = Walk(Projects(), force=True)
    assert list(walk.files(str(tmp_path / "examples"))) == []
    assert walk.left_out == {str(tmp_path / "pyproject.toml")}
    assert [walk.takes(str(tmp_path / name)) for name in ("examples/a.py", "b.py")] == [False, True]
    assert Walk(Projects()).takes(str(tmp_path / "examples" / "a.py"))


def test_links_to_folders_are_not_followed(tmp_path: Path) -> None:
    make(tmp_path, "pkg/a.py")
    (tmp_path / "pkg" / "loop").symlink_to(tmp_path)
    assert found(tmp_path) == ["pkg/a.py"]


def test_the_current_folder_adds_nothing_to_the_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "a.py", "pkg/b.py")
    monkeypatch.chdir(tmp_path)
    assert list(Walk(Projects()).files(".")) == ["a.py", "pkg/b.py"]
