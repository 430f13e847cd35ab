"""Answers travel as JSON."""

from __future__ import annotations

import json

import pytest

from drygrad.static.lookup.answers import Answer, Question


def test_round_trip() -> None:
    answer = Answer("function", "a.f", ("a.B",), False, ("torch.no_grad",), True, "a.B")
    assert Answer.from_json(json.loads(json.dumps(answer.to_json()))) == answer


@pytest.mark.parametrize("data", [None, [], "x", {"kind": "nonsense"}, {"colour": "red"}, {"bases": 3}])
def test_what_is_no_answer(data: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        Answer.from_json(data)


@pytest.mark.parametrize(
    ("name", "level", "parts", "valid"),
    [
        ("a.b", 0, ("a", "b"), True),
        ("..models.Net", 2, ("models", "Net"), True),
        (".", 1, ("",), False),
        ("a b", 0, ("a b",), False),
    ],
)
def test_questions(name: str, level: int, parts: tuple[str, ...], valid: bool) -> None:
    question = Question(name)
    assert (question.level, question.parts, question.valid) == (level, parts, valid)
