"""One operation of torch, as it was found by trying it.

A call's *form* says of each argument, under the name that its position goes by, of what kind it is::

    -  not given, or None     T  a tensor                 L  a list with tensors    S  a list of anything else
    N  a number               D  a dtype                  O  anything else          ?  not known
    True, False, 'mean'       a switch or a mode, by its value

Where the forms of a call differ in what they do, a claim is told for each; one that was not tried says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypedDict

Form = Mapping[str, str]
OTHER_NAMES = {"self": "input", "axis": "dim", "keepdims": "keepdim", "x2": "other"}
"""Names that torch takes for another one."""
RESULT = "out"
_ELSEWHERE = frozenset({"inplace", "out"})
"""Arguments that make another form of an operation."""


Label: TypeAlias = str | bool | None
"""What is claimed; None: nothing."""


class Cases(TypedDict):
    """A claim for each form: the arguments that decide, and a label for each of their kinds that was tried."""

    by: list[str]
    cases: list[tuple[list[str], Label]]


Claim: TypeAlias = Cases | str | bool | None


class Row(TypedDict, total=False):
    """What is written down of an operation.

    ``refuses`` are dtypes that the first operand may not have, though it may be of floats.
    ``kinds`` are those of which each argument was when the operation was tried, ``defaults`` those of switches and
    modes that are not given. ``grad`` says by "operand result" whether one passes on that it requires grad, ``kept`` by
    "kept operand" what is kept for whose gradient; the same of in-place forms in ``grad_`` and ``kept_``.
    """

    signature: list[list[str]]
    kinds: dict[str, str]
    defaults: dict[str, str]
    out: Claim
    shape: Claim
    refuses: Claim
    dtype0: Claim
    dtype1: Claim
    dtype2: Claim
    dtype3: Claim
    view: Claim
    grad: dict[str, Claim]
    kept: dict[str, Claim]
    grad_: dict[str, Claim]
    kept_: dict[str, Claim]


@dataclass(frozen=True, slots=True)
class Op:
    """An operation: its overloads, and what is claimed of its calls.

    ``overloads`` are the names that each takes by position, and those that it takes by name only.
    """

    name: str
    overloads: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    row: Row = field(repr=False)

    @property
    def signature(self) -> tuple[str, ...]:
        """The names of the positions: those of the overload that takes most."""
        return max((names for names, _ in self.overloads), key=len, default=())

    @property
    def method_signature(self) -> tuple[str, ...]:
        """The same where the tensor stands before the dot."""
        names = self.signature
        return ("input", *(name for name in names if name != "input")) if "input" in names else names

    def canonical(self, name: str) -> str:
        """Return the name that the position of a keyword goes by."""
        name = OTHER_NAMES.get(name, name)
        if name in self.signature:
            return name
        place = next((names.index(name) for names, _ in self.overloads if name in names), None)
        return name if place is None else self.signature[place]

    def was_tried(self, form: Form) -> bool:
        """Say whether each argument is of a kind that was tried: nothing is known of other calls."""
        kinds = self.row.get("kinds", {})
        return all(
            kind in ("-", "?") or name in _ELSEWHERE or _accepts(kinds.get(name, "").split(" "), kind)
            for name, kind in form.items()
            if name[0] != "#"
        )

    def takes(self, name: str, kind: str) -> bool:
        """Say whether an argument was tried with this kind."""
        return kind in self.row.get("kinds", {}).get(name, "").split(" ")

    def structure(self, form: Form) -> Label:
        """Return what a call gives: ``tensor``, the number of tensors in a tuple, ``many``, or ``other``."""
        return self._decide(self.row.get("out"), form)

    def structure_of_all(self) -> Label:
        """Return what every call gives, whatever its arguments; None where that depends on them."""
        claim = self.row.get("out")
        return self._decide(claim, dict.fromkeys(claim["by"], "?") if isinstance(claim, dict) else {})

    def shape(self, form: Form) -> Label:
        """Return the rule for the shape of one result: ``scalar``, ``same:input``, ``broadcast:*``, ``reduce:all``."""
        return self._decide(self.row.get("shape"), form)

    def dtype(self, index: int, form: Form) -> Label:
        """Return the rule for the dtype of a result: ``int64``, ``same:input``, ``float:*`` ...

        ``*`` are all tensors, ``#`` these and numbers, ``~`` those of floats.
        """
        claims = (self.row.get("dtype0"), self.row.get("dtype1"), self.row.get("dtype2"), self.row.get("dtype3"))
        return self._decide(claims[index], form) if index < len(claims) else None

    def refuses(self, form: Form) -> frozenset[str]:
        """Return the dtypes that a call refuses in its first operand, where it takes floats."""
        said = self._decide(self.row.get("refuses"), form)
        return frozenset(said.split()) if isinstance(said, str) else frozenset()

    def view(self, form: Form) -> Label:
        """Return whether the result shares the memory of the first operand: ``always``, ``maybe``, ``never``."""
        return self._decide(self.row.get("view"), form)

    def passes_on(self, index: int, form: Form, *, in_place: bool = False) -> Mapping[str, Label]:
        """Return by operand whether a result requires grad because the operand does."""
        place = f" {RESULT}{index}"
        claims = self.row.get("grad_" if in_place else "grad", {})
        return {key.removesuffix(place): self._decide(c, form) for key, c in claims.items() if key.endswith(place)}

    def keeps(self, form: Form, *, in_place: bool = False) -> Iterator[tuple[str, str, Label]]:
        """Yield what is kept for the gradient of which operand, and how surely.

        ``always``; ``ordered``: where its memory is in order; None: not known.
        """
        for key, claim in self.row.get("kept_" if in_place else "kept", {}).items():
            said = self._decide(claim, form)
            if said != "never":
                kept, _, operand = key.partition(" ")
                yield kept, operand, said

    def _decide(self, claim: Claim, form: Form) -> Label:
        if not isinstance(claim, dict):
            return claim
        defaults = self.row.get("defaults", {})
        given = [form.get(name) or defaults.get(name, "-") for name in claim["by"]]
        answers = [
            label
            for kinds, label in claim["cases"]
            if all(known in (kind, "?") for kind, known in zip(kinds, given, strict=True))
        ]
        first = answers[0] if answers else None
        return first if all(answer == first for answer in answers) else None


def _accepts(tried: list[str], kind: str) -> bool:
    """Say whether a kind was tried: one number stands for a list of one."""
    return kind in tried or (kind == "N" and "S" in tried)
