"""Who uses what a file defines: tests and scripts, by whatever name they import it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from drygrad.static.lookup.answers import Question
from drygrad.static.lookup.client import LookupClient, Place
from drygrad.static.lookup.modules import Modules
from drygrad.static.lookup.users import Defined, Reference, User, Users, references

from .conftest import PATIENT, Write

LIBRARY = {
    "lib/__init__.py": "from .model import Net\nfrom . import model as models\n",
    "lib/model.py": "class Net: ...\nclass Other: ...\n",
}


def no_jedi(reference: Reference, origin: Path) -> None:
    raise AssertionError(f"{reference.question.name} in {origin} was clear")


def users(place: Place, name: str = "Net", seconds: float = 20.0) -> list[User]:
    looked = Users(Modules(place.root, place.interpreter_paths))
    return looked.of(Defined(place.root / "lib/model.py", name), time.monotonic() + seconds, no_jedi)


def named(found: list[User], root: Path) -> list[tuple[str, tuple[str, ...], str]]:
    return [(user.path.relative_to(root).as_posix(), user.names, user.module) for user in found]


@pytest.mark.parametrize(
    ("text", "names", "module"),
    [
        ("from lib.model import Net\nNet()", ("Net",), "lib.model"),
        ("from lib.model import Net as Model\nModel()", ("Model",), "lib.model"),
        ("import lib.model\nlib.model.Net()", ("lib.model.Net",), "lib.model"),
        ("import lib.model as m\nm.Net()", ("m.Net",), "lib.model"),
        ("from lib import model\nmodel.Net()", ("model.Net",), "lib.model"),
        ("from lib import Net\nNet()", ("Net",), "lib.model"),
        ("from lib import models\nmodels.Net()", ("models.Net",), "lib.model"),
        ("from lib.model import *\nNet()", ("Net",), "lib.model"),
        ("def test():\n    from lib.model import Net\n    Net()", ("Net",), "lib.model"),
    ],
)
def test_every_way_to_import(text: str, names: tuple[str, ...], module: str, write: Write) -> None:
    place = write({**LIBRARY, "tests/test_it.py": text + "\n"})
    assert named(users(place), place.root)[0] == ("tests/test_it.py", names, module)


@pytest.mark.parametrize(
    "text",
    [
        "from lib.model import Other\nNet = 3  # model",
        "from torch.nn import Net\nNet()  # model",
        "class Net: ...  # model",
        "from lib.model import Net as (",
    ],
)
def test_what_is_no_use(text: str, write: Write) -> None:
    place = write({**LIBRARY, "tests/test_it.py": text + "\n", "torch/nn.py": "class Net: ...\n"})
    assert "tests/test_it.py" not in [path for path, _, _ in named(users(place), place.root)]


def test_tests_come_first_and_environments_not_at_all(write: Write) -> None:
    use = "from lib.model import Net\nNet()\n"
    files = ("app.py", "tests/test_a.py", "tests/test_model.py", ".venv/x.py", "env/lib/x.py", "build/x.py")
    place = write({**LIBRARY, **dict.fromkeys(files, use), "env/pyvenv.cfg": ""})
    found = [path for path, _, _ in named(users(place), place.root)]
    assert found == ["tests/test_model.py", "tests/test_a.py", "app.py"]


def test_a_file_is_read_again_when_it_has_changed(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    place = write({**LIBRARY, "test_it.py": "from lib.model import Other\n"})
    looked = Users(Modules(place.root))
    defined = Defined(place.root / "lib/model.py", "Net")
    read: list[str] = []
    plain = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(path.name) or plain(path))  # type: ignore[func-returns-value]

    def look() -> list[str]:
        return [user.path.name for user in looked.of(defined, time.monotonic() + 20, no_jedi)]

    assert "test_it.py" not in look()
    read.clear()
    assert "test_it.py" not in look()
    assert "test_it.py" not in read
    (place.root / "test_it.py").write_text("from lib.model import Net\nNet()\n", "utf-8")
    os.utime(place.root / "test_it.py", (1, 1))
    assert "test_it.py" in look()


def test_no_time_finds_nobody(write: Write) -> None:
    place = write({**LIBRARY, "test_it.py": "from lib.model import Net\nNet()\n"})
    assert users(place, seconds=-1.0) == []


def test_names_that_no_import_begins_are_left_out() -> None:
    text = b"import lib.model\nlib.model.Net\nself.Net\nf().Net\nother.Net\n"
    assert references(text, "Net") == {"lib.model.Net": Reference(Question("lib.model.Net"), 2, 12)}


@pytest_asyncio.fixture
async def client() -> AsyncIterator[LookupClient]:
    asked = LookupClient(PATIENT)
    yield asked
    await asked.close()


@pytest.mark.asyncio
async def test_the_helper_answers_and_asks_jedi_where_names_alone_do_not_tell(
    client: LookupClient, write: Write
) -> None:
    chosen = "import lib.model\nCHOSEN = [lib.model]\nparts = CHOSEN[0]\n"
    place = write({**LIBRARY, "chosen.py": chosen, "test_it.py": "from chosen import parts\nparts.Net()  # model\n"})
    at = Place(place.root / "lib/model.py", place.root, place.interpreter_paths)
    found = await client.users(at, "Net")
    assert named(found, place.root)[0] == ("test_it.py", ("parts.Net",), "lib.model")


@pytest.mark.asyncio
async def test_a_cancelled_question_does_not_disturb_the_next(client: LookupClient, write: Write) -> None:
    place = write({**LIBRARY, "test_it.py": "from lib.model import Net\nNet()\n"})
    at = Place(place.root / "lib/model.py", place.root)
    task = asyncio.ensure_future(client.users(at, "Net"))
    while client.pid is None:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await client.users(at, "Net"))[0].path.name == "test_it.py"
