"""What the server asks of the process that checks the workspace."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lsprotocol import types as lsp

from drygrad.lsp.capabilities import Capabilities


@dataclass(frozen=True)
class Folder:
    """A folder of the workspace; ``rules`` and ``interpreter`` are what the editor says of it."""

    path: str
    rules: Mapping[str, Any] = field(default_factory=dict[str, Any])
    interpreter: str | None = None


@dataclass(frozen=True)
class Request:
    """What is to be checked, and how the client wants to hear of it."""

    folders: tuple[Folder, ...]
    encoding: str
    capabilities: Capabilities

    def written(self) -> str:
        """Return it as a literal: unlike JSON, that knows tuples."""
        able = vars(self.capabilities) | {"tags": tuple(int(tag) for tag in self.capabilities.tags)}
        return repr(([(f.path, dict(f.rules), f.interpreter) for f in self.folders], self.encoding, able))

    @classmethod
    def read(cls, text: str) -> Request:
        """Read what was written."""
        folders, encoding, able = ast.literal_eval(text)
        able["tags"] = tuple(lsp.DiagnosticTag(tag) for tag in able["tags"])
        return cls(tuple(Folder(*each) for each in folders), encoding, Capabilities(**able))
