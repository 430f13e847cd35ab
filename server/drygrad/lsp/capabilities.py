"""What the client can do, resolved once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lsprotocol import types as lsp


@dataclass(frozen=True)
class Capabilities:
    """The client's abilities that the server asks about."""

    pulls_diagnostics: bool = False
    refreshes_diagnostics: bool = False
    related_information: bool = False
    tags: tuple[lsp.DiagnosticTag, ...] = ()
    code_description: bool = False
    diagnostic_data: bool = False
    document_changes: bool = False
    code_action_literals: bool = False
    resolves_edits: bool = False
    markdown: bool = False
    configuration: bool = False
    registers_configuration: bool = False
    watches_files: bool = False
    progress: bool = False
    shows_lenses: bool = False
    refreshes_lenses: bool = False
    refreshes_hints: bool = False

    @classmethod
    def of(cls, client: lsp.ClientCapabilities) -> Capabilities:
        """Read them from what the client announced; what it does not mention it cannot do."""
        text, workspace = client.text_document, client.workspace
        published = _get(text, "publish_diagnostics")
        pulled = _get(text, "diagnostic")
        shown = pulled or published
        action = _get(text, "code_action")
        return cls(
            pulls_diagnostics=pulled is not None,
            refreshes_diagnostics=bool(_get(workspace, "diagnostics", "refresh_support")),
            related_information=_either(published, pulled, "related_information"),
            tags=tuple(_get(published, "tag_support", "value_set") or _get(shown, "tag_support", "value_set") or ()),
            code_description=_either(published, pulled, "code_description_support"),
            diagnostic_data=_either(published, pulled, "data_support"),
            document_changes=bool(_get(workspace, "workspace_edit", "document_changes")),
            code_action_literals=_get(action, "code_action_literal_support") is not None,
            resolves_edits="edit" in (_get(action, "resolve_support", "properties") or ())
            and bool(_get(action, "data_support")),
            markdown=lsp.MarkupKind.Markdown in (_get(text, "hover", "content_format") or ()),
            configuration=bool(_get(workspace, "configuration")),
            registers_configuration=bool(_get(workspace, "did_change_configuration", "dynamic_registration")),
            watches_files=bool(_get(workspace, "did_change_watched_files", "dynamic_registration")),
            progress=bool(_get(client.window, "work_done_progress")),
            shows_lenses=_get(text, "code_lens") is not None,
            refreshes_lenses=bool(_get(workspace, "code_lens", "refresh_support")),
            refreshes_hints=bool(_get(workspace, "inlay_hint", "refresh_support")),
        )


def _either(published: Any, pulled: Any, name: str) -> bool:
    """Say whether the client can do it in either way of diagnostics: old clients mention it only for the pushed."""
    return bool(_get(published, name) or _get(pulled, name))


def _get(value: Any, *names: str) -> Any:
    for name in names:
        value = getattr(value, name, None)
    return value
