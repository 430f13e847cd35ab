"""Which programs come to a definition: over whatever files, by the names that lead there."""

from __future__ import annotations

import asyncio
import time

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
    looked = Dependents(Modules(place.root, place.interpreter_paths), time.monotonic() + seconds)
    return shown(looked.of(Defined(place.root / "pkg/nets/net.py", name)), place)


def shown(programs: list[Dependent], place: Place) -> list[tuple[str, int, bool]]:
    return [(one.path.relative_to(place.root).as_posix(), one.imports, one.names) for one in programs]


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
    place = write(PROJECT)
    looked = Dependents(Modules(place.root, place.interpreter_paths), time.monotonic() + 60.0)
    programs = looked.of(Defined(place.root / "pkg/nets/net.py", "Net"))
    assert [one.tests for one in programs[:2]] == [("test_two", "TestTwo"), ()]


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
