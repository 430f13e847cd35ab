"""What a value is called that is given beside another: an argument, or an attribute of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from drygrad.dryrun.inputs.usage import Usage

_DEPTH = 2


class KnownNames:
    """The values that a function is given, by the expressions that read them in it."""

    def __init__(self) -> None:
        self._given: Mapping[str, Usage] = {}

    def enter(self, given: Mapping[str, Usage]) -> None:
        """Take the parameters of a function for what is known."""
        self._given = given

    def of(self, wanted: Usage | None) -> str:
        """Return the expression that reads a value; empty where there is none."""
        if wanted is None:
            return ""
        return next((name for name, usage in self._every() if usage is wanted), "")

    def _every(self) -> Iterator[tuple[str, Usage]]:
        level = [*self._given.items()]
        for _ in range(_DEPTH + 1):
            yield from level
            level = [
                (f"{name}.{attribute}", part)
                for name, usage in level
                for attribute, part in usage.attributes.items()
                if part is not usage
            ]
