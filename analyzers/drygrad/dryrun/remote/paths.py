"""What folders are called here and there. Paths are translated once, where a message crosses the wire."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast


@dataclass(frozen=True)
class Paths:
    """Pairs of a folder here and the same folder there."""

    pairs: tuple[tuple[str, str], ...] = ()

    def there(self, path: str) -> str:
        """Return what a path of ours is called there; itself where no folder has it."""
        for here, there in self._longest(0):
            rest = _below(path, here)
            if rest is not None:
                return there + rest.replace(os.sep, "/")
        return path

    def plan_there(self, value: Any) -> Any:
        """Return a plan as the other side reads it: what is a path as a whole, or behind an option's ``=``."""
        if isinstance(value, str):
            option, given, path = value.partition("=")
            return f"{option}={self.there(path)}" if given and Path(path).is_absolute() else self.there(value)
        if isinstance(value, Mapping):
            fields = cast("Mapping[str, Any]", value)
            return {self.there(name): self.plan_there(one) for name, one in fields.items()}
        is_list = isinstance(value, (list, tuple))
        return [self.plan_there(one) for one in cast("Sequence[Any]", value)] if is_list else value

    def answer_here(self, value: Any) -> Any:
        """Return an answer with our paths, also where they stand within a sentence."""
        if isinstance(value, str):
            return self._here(value)
        if isinstance(value, dict):
            return {name: self.answer_here(one) for name, one in cast("dict[str, Any]", value).items()}
        return [self.answer_here(one) for one in cast("list[Any]", value)] if isinstance(value, list) else value

    def _here(self, text: str) -> str:
        for here, _, pattern in self._patterns:
            text = pattern.sub(lambda found, here=here: here + (found[1] or "").replace("/", os.sep), text)
        return text

    @cached_property
    def _patterns(self) -> list[tuple[str, str, re.Pattern[str]]]:
        rest = r"(/[^\s'\"<>|*?:;,()]*)?(?![\w.-])" if os.sep != "/" else r"((?=/)|(?![\w.-]))"
        return [
            (here, there, re.compile(rf"(?<![\w.~-]){re.escape(there)}{rest}"))
            for here, there in self._longest(1)
            if here != there
        ]

    def _longest(self, side: int) -> list[tuple[str, str]]:
        return sorted(self.pairs, key=lambda pair: -len(pair[side]))


def _below(path: str, folder: str) -> str | None:
    """Return what follows a folder in a path, with its separator; None where the path is not below it."""
    if path == folder:
        return ""
    return path[len(folder) :] if path.startswith(folder.rstrip(os.sep) + os.sep) else None
