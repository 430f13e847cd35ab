"""Ways to another machine: the words that lead there, the files that go, the paths that come back."""

from __future__ import annotations

import ast
import base64
import json
import os
import shlex
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from drygrad.dryrun.remote.mirror import LARGEST, Mirror
from drygrad.dryrun.remote.packing import LOADER, arrival, packed
from drygrad.dryrun.remote.paths import Paths
from drygrad.launchers import Profile, profile_of
from drygrad.worker.far.beside import keep

ODD = ["-c", "print('it')", "$(touch pwned)", "a b;`c`", "new\nline", "", '"', "\\"]


def words(command: str, **fields: str) -> list[str]:
    profile = profile_of(shlex.split(command), {})
    assert profile is not None
    return Profile(profile.command, **fields).words(ODD, "/own/python")  # pyright: ignore[reportArgumentType]


def test_a_shell_on_the_other_side_reads_the_words_as_they_were() -> None:
    behind = words("ssh host", python="printf")
    line = " ".join(behind[behind.index("host") + 1 :]).replace("printf", "printf %s\\\\0", 1)
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout.split("\0")[:-1] == ODD


@pytest.mark.parametrize(
    ("command", "begins"),
    [
        ("docker exec box", ["docker", "exec", "-i", "box", "python3"]),
        ("docker exec -it box", ["docker", "exec", "-it", "box", "python3"]),
        ("podman run --rm image", ["podman", "run", "-i", "--rm", "image", "python3"]),
        ("kubectl exec pod", ["kubectl", "exec", "-i", "pod", "--", "python3"]),
        ("kubectl exec --stdin pod --", ["kubectl", "exec", "--stdin", "pod", "--", "python3"]),
        ("srun --gres=gpu:1", ["srun", "--gres=gpu:1", "/own/python"]),
        (
            "docker exec box env A=1 {command} last",
            ["docker", "exec", "-i", "box", "env", "A=1", "python3", *ODD, "last"],
        ),
        ("wsl.exe", ["wsl.exe", "--exec", "python3"]),
    ],
)
def test_a_command_gets_the_options_that_it_needs(command: str, begins: list[str]) -> None:
    assert words(command)[: len(begins)] == begins


def test_ssh_never_asks_and_notices_a_dead_connection_unless_told_otherwise() -> None:
    assert {"-oBatchMode=yes", "-oServerAliveInterval=15"} <= set(words("ssh host"))
    assert "-oBatchMode=yes" not in words("ssh -o BatchMode=no host")


def test_other_commands_are_no_profile_and_names_go_before_programs() -> None:
    mine = Profile(("docker", "exec", "box"), "ssh")
    assert profile_of(("env", "A=1"), {}) is None
    assert profile_of((), {"": mine}) is None
    assert profile_of(("ssh",), {"ssh": mine}) is mine


def test_setup_runs_in_front_and_the_command_follows() -> None:
    line = Profile(("nice",), setup="echo from setup").words(["-c", "print(2)"], "")
    replaced = [word.replace("python3", sys.executable) for word in line]
    assert subprocess.run(replaced, capture_output=True, text=True, check=True).stdout == "from setup\n2\n"


def test_the_worker_is_packed_alike_twice_and_has_no_more_than_it_needs() -> None:
    first = packed()
    packed.cache_clear()
    assert packed() == first
    assert len(first.data) < 600_000
    assert arrival().count(b"\n") == 1


def test_paths_go_there_as_wholes_and_come_back_within_sentences() -> None:
    paths = Paths((("/home/me/proj", "/tmp/x/proj"), ("/home/me", "/nfs/me")))
    plan = {
        "path": "/home/me/proj/a.py",
        "argv": ["--config=/home/me/proj/c.yaml", "/data/x"],
        "text": "x = '/home/me'",
    }
    there = paths.plan_there({**plan, "buffers": {"/home/me/b.py": "text"}, "other": "/home/me/project2"})
    assert there["path"] == "/tmp/x/proj/a.py"
    assert there["argv"] == ["--config=/tmp/x/proj/c.yaml", "/data/x"]
    assert there["text"] == plan["text"]
    assert there["buffers"] == {"/nfs/me/b.py": "text"}
    assert there["other"] == "/nfs/me/project2"
    said = "no '/tmp/x/proj/a.py' in /tmp/x/proj, nor in /tmp/x/project or a/tmp/x/proj"
    back = paths.answer_here({"notes": [said], "n": 3})
    assert back == {
        "notes": ["no '/home/me/proj/a.py' in /home/me/proj, nor in /tmp/x/project or a/tmp/x/proj"],
        "n": 3,
    }


def test_code_and_configuration_go_and_what_is_ignored_hidden_or_large_stays(tmp_path: Path) -> None:
    names = [
        "a.py",
        "pkg/b.py",
        "conf/c.yaml",
        ".env",
        ".git/x.py",
        "data/huge.json",
        "secret.json",
        "w.pt",
        "venv/v.py",
    ]
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x" * (LARGEST + 1) if "huge" in name else name)
    (tmp_path / ".gitignore").write_text("secret*\n")
    outside = tmp_path.parent / f"{tmp_path.name}-outside.py"
    outside.write_text("outside")
    (tmp_path / "link.py").symlink_to(outside)
    mirror = Mirror(tmp_path)
    message = mirror.changes()
    assert message is not None
    assert sorted(message["put"]) == ["a.py", "conf/c.yaml", "pkg/b.py"]
    assert mirror.changes() is None
    (tmp_path / "a.py").write_text("other text")
    (tmp_path / "pkg" / "b.py").unlink()
    assert mirror.changes() == {
        "type": "files",
        "put": {"a.py": base64.b64encode(b"other text").decode()},
        "gone": ["pkg/b.py"],
    }
    assert mirror.changes() is None


def test_what_is_too_much_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drygrad.dryrun.remote.mirror.MOST_FILES", 2)
    for name in ("a.py", "b.py", "deep/c.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    mirror = Mirror(tmp_path)
    message = mirror.changes()
    assert message is not None
    assert [*message["put"]] == ["a.py", "b.py"]
    assert mirror.left == 1


def test_files_are_kept_below_the_folder_only(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "mine.py").write_text("mine")
    content = base64.b64encode(b"x").decode()
    names = ["a/b.py", "../out.py", str(tmp_path / "abs.py"), "c\0.py"]
    keep(str(root), {"put": dict.fromkeys(names, content), "gone": ["../mine.py"]})
    assert [path.relative_to(tmp_path) for path in tmp_path.rglob("*.py")] == [Path("mine.py"), Path("root/a/b.py")]
    assert "out.py cannot be written" in capfd.readouterr().err


def test_what_arrives_can_be_read_by_old_interpreters() -> None:
    """Its text is compiled as Python 3.6 would, which is refused in a sentence."""
    ast.parse(base64.b64decode(arrival().split(b"'")[3]), feature_version=(3, 6))


def test_a_folder_that_others_can_enter_is_not_used(tmp_path: Path) -> None:
    caches = tmp_path / "caches"
    (caches / "drygrad").mkdir(parents=True)
    (caches / "drygrad").chmod(0o777)
    done = _arrived({"XDG_CACHE_HOME": str(caches)})
    assert done[0] == {"type": "wanted"}
    assert (caches / "drygrad").stat().st_mode & 0o777 == 0o700
    (caches / "drygrad").rmdir()
    (caches / "drygrad").symlink_to(tmp_path)
    assert _arrived({"XDG_CACHE_HOME": str(caches), "TMPDIR": str(tmp_path)})[0] == {"type": "wanted"}
    assert (tmp_path / f"drygrad-{os.getuid()}").is_dir()
    assert not [*tmp_path.glob("worker-*")]


def test_another_worker_than_was_announced_is_not_started(tmp_path: Path) -> None:
    other = zlib.compress(json.dumps({"drygrad/worker/far/__main__.py": "print('started')"}).encode())
    wanted, refused = _arrived({"XDG_CACHE_HOME": str(tmp_path)}, other)
    assert wanted == {"type": "wanted"}
    assert "did not arrive as it was sent" in refused["why"]
    assert [*(tmp_path / "drygrad").iterdir()] == []


def _arrived(environment: dict[str, str], worker: bytes = b"") -> list[dict[str, str]]:
    """Return what is answered to an order whose worker is another, or is never sent."""
    order = json.dumps({"digest": packed().digest, "size": len(worker) or 5, "name": "x"}).encode() + b"\n"
    command = [sys.executable, "-I", "-S", "-c", LOADER, "mark"]
    given = {**os.environ, **environment}
    done = subprocess.run(command, input=arrival() + order + worker, capture_output=True, env=given, check=False)
    first, *lines = done.stdout.splitlines()
    assert first == b"mark0", done
    return [json.loads(line) for line in lines]
