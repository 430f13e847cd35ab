"""How a run of a document is to happen, by what its project, its editor and who asks for it say."""

from __future__ import annotations

from pathlib import Path

from drygrad.interpreters import find_interpreter
from drygrad.launchers import profile_of
from drygrad.lsp.dry_run_service import RunSettings
from drygrad.lsp.session import Session


def settings_of(session: Session, uri: str, path: Path, device: str | None, launch: str | None) -> RunSettings:
    """Return the conditions of a run; a device and a launch that were asked for go before what is set."""
    resolved = session.resolve(uri)
    project, personal = session.settings.project_of(path), resolved.personal
    return RunSettings(
        root=project.root,
        interpreter=find_interpreter(project.root, personal.interpreter, path).path,
        launcher=profile_of(personal.launcher, personal.launchers) or personal.launcher,
        device=device or personal.device,
        timeout=personal.timeout,
        memory_limit=personal.memory_limit,
        verify_time=personal.verify_time,
        search_time=personal.search_time,
        program_time=personal.program_time,
        experiment_time=personal.experiment_time,
        gpu_memory=personal.gpu_memory,
        gpu=personal.gpu,
        launch=launch or personal.launch,
        project=project,
        settings=resolved.settings,
        buffers=session.texts(),
    )
