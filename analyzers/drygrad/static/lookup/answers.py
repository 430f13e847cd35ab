"""Questions about imported names, and their answers: plain data that travels as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

Kind = Literal["class", "function", "module", "instance", "unknown"]
KINDS: tuple[Kind, ...] = get_args(Kind)

MODULE = "torch.nn.modules.module.Module"
TENSOR = "torch.Tensor"


@dataclass(frozen=True, slots=True)
class Question:
    """What a file imports, as it writes it: ``mylib.layers.Block``, ``.models.Net``, ``..utils``."""

    name: str

    @property
    def level(self) -> int:
        """The number of leading dots."""
        return len(self.name) - len(self.name.lstrip("."))

    @property
    def parts(self) -> tuple[str, ...]:
        """The names between the dots, the leading dots left out."""
        return tuple(self.name[self.level :].split("."))

    @property
    def valid(self) -> bool:
        """Whether an import statement could have been written for it."""
        return all(part.isidentifier() for part in self.parts)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a name turned out to be; full names are those of the place of definition.

    ``bases`` are all ancestors, nearest first: of the class itself, of an instance's class, or of the class that a
    function returns. ``complete`` is False where an ancestor could not be found, so that more may exist.
    A re-exported name whose own module is not read (``torch.Tensor``) is unknown, but has its full name.
    ``returns`` is the class of what a function returns, or of an instance.
    """

    kind: Kind = "unknown"
    full_name: str = ""
    bases: tuple[str, ...] = ()
    complete: bool = True
    decorators: tuple[str, ...] = ()
    no_grad: bool = False
    returns: str | None = None

    @property
    def is_module(self) -> bool:
        """Whether the class, the instance or the returned object is a torch.nn.Module for certain."""
        return MODULE in (*self.bases, self.full_name, self.returns)

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: object) -> Answer:
        """Read what ``to_json`` wrote; anything else is a ValueError."""
        if not isinstance(data, Mapping):
            raise ValueError("an answer is an object")
        try:
            answer = cls(**data)  # pyright: ignore[reportUnknownArgumentType]
            if answer.kind not in KINDS:
                raise ValueError(f"no such kind: {answer.kind!r}")
            return cls(
                answer.kind,
                str(answer.full_name),
                tuple(map(str, answer.bases)),
                bool(answer.complete),
                tuple(map(str, answer.decorators)),
                bool(answer.no_grad),
                None if answer.returns is None else str(answer.returns),
            )
        except TypeError as error:
            raise ValueError(str(error)) from error


UNKNOWN = Answer()
