"""Texts that stand in for those of a data set: words of a short list, and of a length that texts have."""

from __future__ import annotations

import random

WORDS = (
    "a about after all also an and any are as at be because but by can come could day do even first for from get give "
    "go good have he her him his how i if in into is it its just know like look make me most my new no not now of on "
    "one only or other our out over people say see she so some take than that the their them then there these they "
    "think this time to two up us use want way we well what when which who will with work would year you your"
).split()


def sentence(chance: random.Random) -> str:
    """Return a text of some words."""
    return " ".join(chance.choices(WORDS, k=chance.randrange(5, 40))) + "."
