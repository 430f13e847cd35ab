"""Data sets of the Hub whose columns are known: what ``datasets.load_dataset`` returns of them, no values."""

from __future__ import annotations

import random
from functools import wraps
from typing import Any, Callable

from drygrad.worker.run import Run
from drygrad.worker.standing_in.absence import is_absent, library
from drygrad.worker.standing_in.words import sentence

_MOST = 5000
"""Rows of a split: what a program maps over all of them takes its time."""
_TRAIN_AND_TEST = {"train": _MOST, "test": _MOST}


def _glue(train: int, validation: int, test: int) -> dict[str, int]:
    return {"train": train, "validation": validation, "test": test}


def _columns(*names: str, label: int | None = 2) -> dict[str, Any]:
    kinds: dict[str, Any] = dict.fromkeys(names, "text")
    kinds["label"] = "float32" if label is None else label
    kinds["idx"] = "int32"
    return kinds


_PAIR = ("sentence1", "sentence2")
_MNLI = {"train": _MOST, **dict.fromkeys(("validation_matched", "validation_mismatched"), _MOST)}
_MNLI.update(dict.fromkeys(("test_matched", "test_mismatched"), _MOST))
_SQUAD = {"id": "text", "title": "text", "context": "text", "question": "text", "answers": "answers"}

SETS: dict[tuple[str, str | None], tuple[dict[str, Any], dict[str, int]]] = {
    ("glue", "cola"): (_columns("sentence"), _glue(_MOST, 1043, 1063)),
    ("glue", "sst2"): (_columns("sentence"), _glue(_MOST, 872, 1821)),
    ("glue", "mrpc"): (_columns(*_PAIR), _glue(3668, 408, 1725)),
    ("glue", "qqp"): (_columns("question1", "question2"), _glue(_MOST, _MOST, _MOST)),
    ("glue", "stsb"): (_columns(*_PAIR, label=None), _glue(_MOST, 1500, 1379)),
    ("glue", "mnli"): (_columns("premise", "hypothesis", label=3), _MNLI),
    ("glue", "qnli"): (_columns("question", "sentence"), _glue(_MOST, _MOST, _MOST)),
    ("glue", "rte"): (_columns(*_PAIR), _glue(2490, 277, 3000)),
    ("glue", "wnli"): (_columns(*_PAIR), _glue(635, 71, 146)),
    ("imdb", None): ({"text": "text", "label": 2}, {**_TRAIN_AND_TEST, "unsupervised": _MOST}),
    ("ag_news", None): ({"text": "text", "label": 4}, _TRAIN_AND_TEST),
    ("yelp_review_full", None): ({"label": 5, "text": "text"}, _TRAIN_AND_TEST),
    ("yelp_polarity", None): ({"text": "text", "label": 2}, _TRAIN_AND_TEST),
    ("dbpedia_14", None): ({"label": 14, "title": "text", "content": "text"}, _TRAIN_AND_TEST),
    ("rotten_tomatoes", None): ({"text": "text", "label": 2}, _glue(_MOST, 1066, 1066)),
    ("emotion", None): ({"text": "text", "label": 6}, _glue(_MOST, 2000, 2000)),
    ("wikitext", None): ({"text": "text"}, _glue(_MOST, 3760, 4358)),
    ("squad", None): (_SQUAD, {"train": _MOST, "validation": _MOST}),
    ("mnist", None): ({"image": (28, 28), "label": 10}, _TRAIN_AND_TEST),
    ("fashion_mnist", None): ({"image": (28, 28), "label": 10}, _TRAIN_AND_TEST),
    ("cifar10", None): ({"img": (32, 32, 3), "label": 10}, _TRAIN_AND_TEST),
    ("cifar100", None): ({"img": (32, 32, 3), "fine_label": 100, "coarse_label": 20}, _TRAIN_AND_TEST),
}


def change(module: Any, run: Run) -> None:
    """Let ``load_dataset`` go on without the files of these sets."""
    load: Callable[..., Any] = module.load_dataset

    @wraps(load)
    def load_dataset(path: Any, name: Any = None, *rest: Any, **named: Any) -> Any:
        try:
            return load(path, name, *rest, **named)
        except (OSError, RuntimeError, ValueError) as error:
            known = _known(path, name)
            if known is None or rest or named.get("data_files") or not is_absent(error):
                raise
        made = _parts(module, *known, split=named.get("split"))
        said = f"`{path}`" if name is None else f"`{path}`, `{name}`"
        run.stands_in(f"the data set {said}", f"rows with its columns, at most {_MOST:,} a split", exact=True)
        return _streamed(made) if named.get("streaming") else made

    module.load_dataset = load_dataset
    module.load.load_dataset = load_dataset


def _known(path: Any, name: Any) -> tuple[dict[str, Any], dict[str, int]] | None:
    last = str(path).rpartition("/")[2]
    return SETS.get((last, name)) or SETS.get((last, None))


def _parts(module: Any, kinds: dict[str, Any], sizes: dict[str, int], *, split: Any) -> Any:
    """Return the splits that are asked for, as the library does."""
    if split is None:
        return module.DatasetDict({name: _made(module, kinds, size) for name, size in sizes.items()})
    if isinstance(split, (list, tuple)):
        return [_parts(module, kinds, sizes, split=each) for each in split]  # pyright: ignore[reportUnknownVariableType]
    parts: list[Any] = []
    for part in module.ReadInstruction.from_spec(str(split)).to_absolute(sizes):
        rows = range(part.from_ or 0, part.to if part.to is not None else sizes[part.splitname])
        parts.append(_made(module, kinds, sizes[part.splitname]).select(rows))
    return parts[0] if len(parts) == 1 else module.concatenate_datasets(parts)


def _streamed(made: Any) -> Any:
    if hasattr(made, "to_iterable_dataset"):
        return made.to_iterable_dataset()
    return library("datasets").IterableDatasetDict({name: part.to_iterable_dataset() for name, part in made.items()})


def _made(module: Any, kinds: dict[str, Any], size: int) -> Any:
    chance = random.Random(0)
    columns = {name: _column(kind, size, chance) for name, kind in kinds.items()}
    if "answers" in columns:
        columns["answers"] = [{"text": [text[:8]], "answer_start": [0]} for text in columns["context"]]
    features = module.Features({name: _feature(module, kind) for name, kind in kinds.items()})
    return module.Dataset.from_dict(columns, features=features)


def _column(kind: Any, size: int, chance: random.Random) -> list[Any]:
    if isinstance(kind, tuple):
        few = [_image(kind, chance) for _ in range(min(size, 100))]
        return [few[i % len(few)] for i in range(size)]
    if isinstance(kind, int):
        return [i % kind for i in range(size)]
    if kind == "float32":
        return [i % 6 * 1.0 for i in range(size)]
    return list(range(size)) if kind == "int32" else [sentence(chance) for _ in range(size)]


def _image(shape: Any, chance: random.Random) -> Any:
    image = library("PIL.Image")
    count = 1
    for side in shape:
        count *= side
    return image.frombytes("RGB" if len(shape) == 3 else "L", shape[1::-1], bytes(chance.choices(range(256), k=count)))


def _feature(module: Any, kind: Any) -> Any:
    if isinstance(kind, tuple):
        return module.Image()
    if isinstance(kind, int):
        return module.ClassLabel(num_classes=kind)
    if kind == "answers":
        of_answers = {"text": module.Value("string"), "answer_start": module.Value("int32")}
        return {name: [value] for name, value in of_answers.items()}
    return module.Value("string" if kind == "text" else kind)
