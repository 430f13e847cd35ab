"""Proposals as expressions: what is done to an object, and what it is given, before the target is called."""

from __future__ import annotations

import types
from typing import Any

from drygrad.worker.search.nodes import Node, text_of


class Buffer:
    def __init__(self) -> None:
        self.rows: list[int] = []

    def add(self, rows: int, twice: int) -> None:
        self.rows += [rows, twice]


def made_by(node: Node) -> Any:
    return eval(text_of(node), {"Buffer": Buffer, "types": types})


def test_a_step_that_reads_an_argument_of_its_own() -> None:
    step = Node("step", "add", value=2, parts=(("rows", Node("number", value=4)), ("twice", Node("text", "rows * 2"))))
    whole = Node("prepared", parts=(("made", Node("call", "Buffer")), ("add", step)))
    assert made_by(whole).rows == [4, 8, 4, 8]


def test_an_object_that_holds_more_than_its_constructor_gives_it() -> None:
    held = Node("held", parts=(("base", Node("call", "Buffer")), ("task", Node("number", value=3))))
    assert (made_by(held).rows, made_by(held).task) == ([], 3)


def test_an_object_without_its_constructor() -> None:
    assert made_by(Node("bare", "Buffer", parts=(("task", Node("number", value=3)),))).__dict__ == {"task": 3}


def test_a_stand_in_with_a_length() -> None:
    three, five = Node("number", value=3), Node("number", value=5)
    made = made_by(Node("namespace", parts=(("__len__", three), ("padding", five))))
    assert (len(made), vars(made)) == (3, {"padding": 5})
