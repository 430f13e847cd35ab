"""What holds for a file: the project's settings, the editor's, and what is wrong with either."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, cast

from pygls.uris import to_fs_path

from drygrad.options import validate
from drygrad.project import Project, SettingsProblem, load_project
from drygrad.settings import EditorSettings, Settings

log = logging.getLogger(__name__)

_PERSONAL = frozenset(f.name for f in fields(EditorSettings))


@dataclass(frozen=True)
class FromEditor:
    """One scope's settings as the editor gave them: the personal ones, and rules for files without a project file."""

    personal: EditorSettings = field(default_factory=EditorSettings)
    rules: Mapping[str, Any] = field(default_factory=dict[str, Any])
    complaints: tuple[str, ...] = ()
    log_level: str | None = None

    @classmethod
    def read(cls, given: object, *, trusted: bool = False) -> FromEditor:
        """Validate what an editor sent; what is wrong keeps its default.

        ``trusted`` is what was said of the workspace at the beginning; it holds until the settings say otherwise.
        """
        if given is None:
            return cls(EditorSettings(trusted=trusted))
        if not isinstance(given, Mapping):
            return cls(complaints=(f"the settings of drygrad must be an object, not {given!r}",))
        validated = validate(cast("Mapping[str, object]", given), "editor")
        personal: dict[str, Any] = {"trusted": trusted}
        personal |= {name: value for name, value in validated.values.items() if name in _PERSONAL}
        rules = {name: value for name, value in validated.values.items() if name not in _PERSONAL}
        complaints = tuple(complaint.message for complaint in validated.complaints)
        return cls(EditorSettings(**personal), rules, complaints, validated.values.get("log_level"))


@dataclass(frozen=True)
class Resolved:
    """What holds for one document; ``baseline`` is the file of the findings that are known and not shown."""

    settings: Settings
    personal: EditorSettings
    excluded: bool = False
    path: Path | None = None
    baseline: Path | None = None


class SettingsStore:
    """The settings of all folders. Project files are read once, until the client says that they changed."""

    def __init__(self) -> None:
        self._projects: dict[Path, Project] = {}
        self.shown_problems: dict[Path, list[SettingsProblem]] = {}
        self.trusted_at_start = False
        self._complained: tuple[str, ...] = ()
        self._default = FromEditor()
        self._by_folder: dict[Path, FromEditor] = {}
        self._by_file: dict[Path, FromEditor | None] = {}

    def set_editor(self, default: FromEditor, by_folder: Mapping[Path, FromEditor] | None = None) -> None:
        """Take over what the editor says, for all folders and for single ones."""
        self._default = default
        self._by_folder = dict(by_folder or {})

    @property
    def log_level(self) -> str | None:
        """How much to log; None where the editor does not say."""
        return self._default.log_level

    def set_file(self, path: Path, given: FromEditor | None) -> None:
        """Take over what the editor says for one file; None until it has said it."""
        self._by_file[path] = given

    def asks_for(self, path: Path) -> bool:
        """Say whether the editor is asked for one file by itself."""
        return path in self._by_file

    def forget_file(self, path: Path) -> None:
        """Have what holds for a file's folder hold for it again."""
        self._by_file.pop(path, None)

    def forget_projects(self) -> None:
        """Read the project files anew from now on."""
        self._projects.clear()

    def problems(self) -> Sequence[SettingsProblem]:
        """Return what is wrong in the project files read so far."""
        found = {problem: None for project in self._projects.values() for problem in project.problems}
        return list(found)

    def new_complaint(self) -> str | None:
        """Return what is wrong in the editor's settings, if that has not been said already."""
        given = [self._default, *self._by_folder.values()]
        complaints = tuple(dict.fromkeys(text for one in given for text in one.complaints))
        if complaints == self._complained:
            return None
        self._complained = complaints
        return "Settings of drygrad: " + "; ".join(complaints) if complaints else None

    def resolve(self, path: Path | None) -> Resolved:
        """Return what holds for a file; None is a text without a path."""
        editor = self._by_file.get(path) if path else None
        editor = editor or self._of_folder(path)
        if path is None:
            return Resolved(Settings(**editor.rules), editor.personal)
        project = self._project(path)
        if project.config is None and editor.rules:
            project = replace(project, settings=Settings(**editor.rules))
        settings = project.settings_for(path)
        baseline = project.root / settings.baseline if settings.baseline else None
        return Resolved(settings, _with_runs(editor.personal, project), project.excludes(path), path, baseline)

    @property
    def personal(self) -> EditorSettings:
        """What one person has set, where nothing else is said of a folder or a file."""
        return self._default.personal

    def for_folder(self, folder: Path) -> tuple[Mapping[str, Any], str | None]:
        """Return the editor's rules for a folder without a project file, and the interpreter that it names there."""
        editor = self._of_folder(folder)
        return editor.rules, editor.personal.interpreter

    def _of_folder(self, path: Path | None) -> FromEditor:
        inside = [folder for folder in self._by_folder if path is not None and path.is_relative_to(folder)]
        return self._by_folder[max(inside, key=lambda folder: len(folder.parts))] if inside else self._default

    def project_of(self, path: Path) -> Project:
        """Return the project that a file belongs to."""
        return self._project(path)

    def root_of(self, path: Path) -> Path:
        """Return the root of the project that a file belongs to."""
        return self._project(path).root

    def _project(self, path: Path) -> Project:
        folder = path.parent
        if folder not in self._projects:
            try:
                self._projects[folder] = load_project(path)
            except OSError as error:  # a parent folder may be unreadable
                log.warning("cannot look for settings above %s: %s", path, error)
                self._projects[folder] = Project(folder, Settings())
        return self._projects[folder]


def _with_runs(personal: EditorSettings, project: Project) -> EditorSettings:
    """Return a person's settings with what the project sets for dry runs in their place."""
    runs = {name: value for name, value in vars(project.runs).items() if name in _PERSONAL and value is not None}
    runs["interpreter"] = project.interpreter or personal.interpreter
    runs["launchers"] = {**project.runs.launchers, **personal.launchers}
    return replace(personal, **runs)


def path_of(uri: str) -> Path | None:
    """Return the path of a file URI; None for texts that are not files of this machine."""
    if not uri.lower().startswith("file:"):
        return None
    try:
        path = to_fs_path(uri)
    except ValueError:
        return None
    return Path(path) if path else None
