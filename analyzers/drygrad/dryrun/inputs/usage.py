"""How code uses a value that it is given: what is read from it, how it is unpacked, called, iterated."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TypeAlias

MOST_ELEMENTS = 16
_MOVING = frozenset(("to", "cuda", "cpu", "detach", "device", "pin_memory"))


@dataclass(eq=False)
class Usage:
    """What is done with one value, and with the parts of it.

    ``names`` are what it is called, the nearest first; ``ranks`` numbers of dimensions that are relied on, the surest
    first; ``methods`` what each called method gives; ``elements`` the parts that have a number, ``item`` any of them;
    ``result`` what a call of it gives; ``choices`` constants that it is compared with; ``kinds`` words for what it
    must be (see ``torch_uses.py``); ``annotations`` what functions that it is passed to call for.
    """

    names: list[str] = field(default_factory=list[str])
    ranks: list[int] = field(default_factory=list[int])
    least_rank: int = 0
    attributes: dict[str, Usage] = field(default_factory=lambda: {})
    methods: dict[str, Usage] = field(default_factory=lambda: {})
    keys: dict[str, Usage] = field(default_factory=lambda: {})
    elements: dict[int, Usage] = field(default_factory=lambda: {})
    width: int = 0
    """Into how many parts it is unpacked."""
    item: Usage | None = None
    result: Usage | None = None
    calls: list[ast.Call] = field(default_factory=list[ast.Call])
    choices: list[str] = field(default_factory=list[str])
    kinds: set[str] = field(default_factory=set[str])
    annotations: list[ast.expr] = field(default_factory=list[ast.expr])
    owner: ast.ClassDef | None = None
    """The class of the file that it is an object of, where the code itself has made it, or calls for it."""
    given: dict[str, Usage] | None = None
    """How the constructor's parameters are used that made it, by that class."""
    made: str = ""
    """What of torch's has made it."""
    shape_of: Usage | None = None
    """The value whose shape it is."""
    entered: list[ast.FunctionDef | ast.AsyncFunctionDef] = field(
        default_factory=list[ast.FunctionDef | ast.AsyncFunctionDef]
    )
    """The methods of its class that are called on it."""
    state_of: Usage | None = None
    """The value that takes it as its state."""

    @property
    def is_called(self) -> bool:
        """Whether it is called."""
        return bool(self.calls)

    @property
    def used(self) -> set[str]:
        """The attributes that are read, methods among them."""
        return {*self.attributes, *self.methods}

    def called(self, name: str) -> Usage:
        """Remember a name that it has; return it."""
        if name and name not in self.names:
            self.names.append(name)
        return self

    def attribute(self, name: str) -> Usage:
        """Return an attribute."""
        return self.attributes.setdefault(name, Usage([name]))

    def method(self, name: str) -> Usage:
        """Return what a method gives."""
        return self.methods.setdefault(name, Usage())

    def key(self, name: str) -> Usage:
        """Return the entry of a mapping."""
        return self.keys.setdefault(name, Usage([name]))

    def element(self, index: int) -> Usage:
        """Return the part of a number."""
        if self.item is not None:
            return self.item
        return self.elements.setdefault(index, Usage())

    def any_item(self) -> Usage:
        """Return what stands for every element."""
        if self.item is None:
            self.item = next(iter(self.elements.values()), None) or Usage()
        return self.item

    def tell_apart(self) -> None:
        """Forget what stands for every element, where all that was done is to move each, and they now get names."""
        item = self.item
        if item is not None and item.used <= _MOVING and not (item.width or item.keys or item.elements or item.item):
            self.item = None
            self.kinds.discard("iterated")

    def call(self, node: ast.Call) -> Usage:
        """Remember a call of it; return what it gives."""
        self.calls.append(node)
        if self.result is None:
            self.result = Usage()
        return self.result

    def loaded_by(self, made: str, *, is_collated: bool) -> Usage:
        """Return a loader of this dataset, whose batches are its samples put together."""
        self.kinds.add("dataset")
        return Usage(made=made, item=self.any_item() if is_collated else None)

    def reach(self, dims: list[ast.expr]) -> None:
        """Remember that dimensions are read: the tensor must have them."""
        for dim in dims:
            if isinstance(dim, ast.Constant) and isinstance(dim.value, int) and not isinstance(dim.value, bool):
                self.least_rank = max(self.least_rank, dim.value + 1)


Value: TypeAlias = "Usage | tuple[Value, ...] | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | None"
"""What an expression gives, as far as it matters here: a value that is followed, several, or a definition."""
