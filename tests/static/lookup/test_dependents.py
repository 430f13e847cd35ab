"""Which programs come to a definition: over whatever files, by the names that lead there."""

from __future__ import annotations

import asyncio
import time

import pytest

from drygrad.static.lookup.client import LookupClient, Place
from drygrad.static.lookup.dependents import Dependent, Dependents
from drygrad.static.lookup.modules import Modules
from drygrad.static.lookup.users import Defined

from .conftest import PATIENT, Write

MAIN = "if __name__ == '__main__':\n    main()\n"
PROJECT = {
    "pkg/__init__.py": "from .registry import build as make\nprint('imported')\n",
    "pkg/nets/__init__.py": "from .net import *\n",
    "pkg/nets/net.py": "class Net: ...\nclass Other: ...\n",
    "pkg/registry.py": "from . import nets\nKNOWN = {'net': nets.Net}\ndef build(name):\n    return KNOWN[name]()\n",
    "train.py": "import pkg\ndef main():\n    net = pkg.make('net')\n" + MAIN,
    "near.py": "from pkg.nets.net import Net\nNet()\n",
    "other.py": "from pkg.nets.net import Other\n" + MAIN,
    "library.py": "from pkg import make\ndef two():\n    return make(1), make(2)\n",
    "deep.py": "from library import (\n    two,\n)\n" + MAIN.replace("main()", "two()"),
    "tests/test_it.py": "from pkg.nets import Net\n" + MAIN.replace("main()", "Net()"),
    "tests/test_that.py": (
        "from library import two\ndef helper(): ...\ndef test_other(): ...\n"
        "def test_two():\n    two()\nclass TestTwo:\n    def test_it(self):\n        two()\n"
    ),
    "apart.py": "def main(): ...\n" + MAIN,
    "broken.py": "from pkg import make\ndef (\n",
}


def found(place: Place, name: str = "Net", seconds: float = 60.0) -> list[tuple[str, int, bool]]:
    return shown(programs(place, name, seconds), place)


def programs(place: Place, name: str, seconds: float = 60.0) -> list[Dependent]:
    looked = Dependents(Modules(place.root, place.interpreter_paths), time.monotonic() + seconds)
    return looked.of(Defined(place.root / "pkg/nets/net.py", name.partition(".")[0]), name)


def shown(found: list[Dependent], place: Place) -> list[tuple[str, int, bool]]:
    return [(one.path.relative_to(place.root).as_posix(), one.imports, one.names) for one in found]


def test_programs_by_names_then_what_they_are_then_nearness(write: Write) -> None:
    assert found(write(PROJECT)) == [
        ("tests/test_that.py", 5, True),
        ("tests/test_it.py", 2, True),
        ("train.py", 4, True),
        ("deep.py", 5, True),
        ("near.py", 1, True),
        ("other.py", 1, False),
    ]


def test_only_the_tests_that_name_it_are_of_interest(write: Write) -> None:
    assert [one.tests for one in programs(write(PROJECT), "Net")[:2]] == [("test_two", "TestTwo"), ()]


LAYERED = {
    "pkg/__init__.py": "from .nets import net\nfrom .mapping import made\n",
    "pkg/nets/__init__.py": "from .net import Net\n",
    "pkg/nets/net.py": (
        "class Net:\n    def _inner(self): ...\n    def run(self):\n        self._inner()\n    def size(self): ...\n"
    ),
    "pkg/mapping.py": "from .nets.net import Net\ndef made():\n    return Net()\n",
    "tests/test_a.py": "from pkg import made\ndef test_size():\n    made().size()\n",
    "tests/test_b.py": "from pkg import made\ndef test_size():\n    made().size()\ndef test_run():\n    made().run()\n",
    "tests/test_net.py": "from pkg import made\ndef test_size():\n    made().size()\n",
}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "Net._inner",
            [("test_b", ("test_run", "test_size")), ("test_net", ("test_size",)), ("test_a", ("test_size",))],
        ),
        ("Net.size", [("test_net", ("test_size",)), ("test_a", ("test_size",)), ("test_b", ("test_size", "test_run"))]),
    ],
)
def test_tests_that_call_the_method_or_what_comes_to_it_come_first(
    name: str, expected: list[tuple[str, tuple[str, ...]]], write: Write
) -> None:
    assert [(one.path.stem, one.tests) for one in programs(write(LAYERED), name)] == expected


@pytest.mark.parametrize(
    ("tests", "expected"),
    [
        ("import unittest, sys\nif __name__ == '__main__':\n    sys.exit(unittest.main())\n", ("test_it",)),
        ("if __name__ == '__main__':\n    Net()\n", ()),
    ],
)
def test_a_main_block_that_has_the_tests_run_is_none_of_a_program(
    tests: str, expected: tuple[str, ...], write: Write
) -> None:
    text = "from pkg.nets.net import Net\ndef test_it():\n    Net().size()\n"
    found = programs(write({**LAYERED, "tests/test_net.py": text + tests}), "Net.size")
    assert [one.tests for one in found if one.path.stem == "test_net"] == [expected]


def test_a_case_may_inherit_all_of_its_tests(write: Write) -> None:
    text = "import unittest\nfrom pkg import made\nclass Sizes(unittest.TestCase, Common):\n    make = made\n"
    found = programs(write({**LAYERED, "tests/test_net.py": text}), "Net.size")
    assert ("Sizes",) in [one.tests for one in found]


def test_the_own_file_comes_before_other_scripts(write: Write) -> None:
    own = PROJECT["pkg/nets/net.py"] + MAIN
    assert found(write({**PROJECT, "pkg/nets/net.py": own}))[:2] == [
        ("tests/test_that.py", 5, True),
        ("pkg/nets/net.py", 0, True),
    ]


def test_nothing_comes_to_a_file_that_is_not_saved_yet(write: Write) -> None:
    place = write({"train.py": PROJECT["train.py"]})
    assert found(place) == []


def test_without_time_there_are_none(write: Write) -> None:
    assert found(write(PROJECT), seconds=-1.0) == []


def test_the_helper_process_answers(write: Write) -> None:
    place = write(PROJECT)

    async def asked() -> list[Dependent]:
        client = LookupClient(PATIENT)
        try:
            return await client.dependents(Place(place.root / "pkg/nets/net.py", place.root), "Net")
        finally:
            await client.close()

    assert shown(asyncio.run(asked()), place) == found(place)
