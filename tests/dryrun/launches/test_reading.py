"""From the words of a command to the launch of a program."""

from __future__ import annotations

from pathlib import Path

import pytest

from drygrad.dryrun.launches.launch import Launch, LaunchError
from drygrad.dryrun.launches.reading import read
from drygrad.dryrun.launches.shell import Unclosed, split

OLD = "torch.distributed.launch"
SCRIPTS = """\
[project.scripts]
fit = "pkg.cli:main"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "pyproject.toml").write_text(SCRIPTS)
    for name in ("train.py", "src/lib/fit.py", "pkg/cli.py", "pkg/__init__.py", "pkg/deep/__main__.py", "test_a.py"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (folder / "empty").mkdir()
    (folder / "go").write_text("#!/usr/bin/env python3\n")
    (folder / "run.sh").write_text('export A=2\nLR=$1\ncd "$(dirname "$0")"\npython train.py --lr $LR "${@}"\n')
    return folder


def launch(folder: Path, command: str) -> Launch:
    return read(split(command), folder)


@pytest.mark.parametrize(
    ("command", "kind", "program", "arguments", "ranks"),
    [
        ("python train.py --config a.yaml", "script", "train.py", ["--config", "a.yaml"], 1),
        ("train.py -- x", "script", "train.py", ["--", "x"], 1),
        ("./go --a", "script", "./go", ["--a"], 1),
        ("python3.11 -u -W ignore -X dev train.py 'a \"b' c\\ d", "script", "train.py", ['a "b', "c d"], 1),
        ("python -um pkg.deep -m x", "module", "pkg.deep", ["-m", "x"], 1),
        ("/usr/bin/python3 -m lib.fit", "module", "lib.fit", [], 1),
        ("torchrun --nproc-per-node 4 train.py --a 1", "script", "train.py", ["--a", "1"], 4),
        ("torchrun --standalone --nnodes=1:2 --nproc_per_node=gpu -m pkg.cli", "module", "pkg.cli", [], 2),
        ("torchrun --nproc 2 --no-python python train.py", "script", "train.py", [], 2),
        ("python -m torch.distributed.run --nproc-per-node 2 train.py", "script", "train.py", [], 2),
        (f"python -m {OLD} --nproc_per_node 8 train.py a", "script", "train.py", ["--local-rank=0", "a"], 8),
        (f"python -m {OLD} --use_env train.py a", "script", "train.py", ["a"], 1),
        ("accelerate launch --multi_gpu --num_processes=2 train.py a", "script", "train.py", ["a"], 2),
        ("deepspeed --num_gpus 2 train.py -d x", "script", "train.py", ["--local_rank=0", "-d", "x"], 2),
        ("deepspeed --no_local_rank -i localhost:0 train.py", "script", "train.py", [], 1),
        ("fabric run --devices 2 --strategy ddp train.py --x", "script", "train.py", ["--x"], 2),
        ("lightning run model --accelerator=cpu train.py", "script", "train.py", [], 1),
        ("srun -N2 --ntasks-per-node=4 --gres gpu:4 --exclusive python train.py", "script", "train.py", [], 8),
        ("mpirun -np 4 --mca btl tcp -x A=1 python train.py", "script", "train.py", [], 4),
        ("uv run --with torch --extra cpu train.py --a", "script", "train.py", ["--a"], 1),
        ("uv --quiet run -m pkg.deep", "module", "pkg.deep", [], 1),
        ("poetry run fit --a", "function", "pkg.cli:main", ["--a"], 1),
        ("conda run -n e --no-capture-output python train.py", "script", "train.py", [], 1),
        ("env -u B A=1 nohup time -p nice -n 5 timeout -k 5 10m python train.py", "script", "train.py", [], 1),
        ("numactl -N 0 taskset -c 0-3 python train.py", "script", "train.py", [], 1),
        ("python -m cProfile -o out -m pkg.deep", "module", "pkg.deep", [], 1),
        ("python -m debugpy --listen 5678 --wait-for-client train.py", "script", "train.py", [], 1),
        ("coverage run -m pkg.deep a", "module", "pkg.deep", ["a"], 1),
        ("nsys profile -o x --trace=cuda python train.py", "script", "train.py", [], 1),
        ("pytest test_a.py::test_step -k x", "tests", "pytest", ["test_a.py::test_step", "-k", "x"], 1),
        ("bash run.sh 0.1", "script", "train.py", ["--lr", "0.1", "0.1"], 1),
    ],
)  # fmt: skip
def test_what_stands_in_front_of_a_program_is_followed(
    folder: Path, command: str, kind: str, program: str, arguments: list[str], ranks: int
) -> None:
    found = launch(folder, command)
    assert (found.kind, found.program, [*found.arguments], found.ranks) == (kind, program, arguments, ranks)
    assert found.file.is_file()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("frobnicate train.py", "`frobnicate` is not a command that drygrad can follow to a Python program"),
        ("python gone.py", "gone.py: no such file in "),
        ("python empty", "empty is a folder without a `__main__.py`"),
        ("python -m pkg", "`pkg` is a package without `__main__`"),
        ("python -m gone.x", "no module `gone.x` in "),
        ("python -m pkg/cli.py", "`pkg/cli.py` is not a module name"),
        ("python -c 'import x'", "python -c has no file"),
        ("python -Z train.py", "python: unknown option `-Z`"),
        ("python -m", "python: `-m` needs a value"),
        ("python", "`python` names no program"),
        ("torchrun --frob 3 train.py", "torchrun: unknown option `--frob`"),
        ("torchrun --nnodes", "torchrun: `--nnodes` needs a value"),
        ("accelerate config", "`accelerate config` starts no program"),
        ("uv pip install x", "`uv` starts a program by `uv run`"),
        ("A=1", "the command starts no program"),
        ("", "the command is missing"),
        ("pytest -q", "pytest: name a file of tests"),
        ("bash gone.sh", "gone.sh: no such file in "),
    ],
)
def test_what_cannot_be_read_is_said_in_one_sentence(folder: Path, command: str, words: str) -> None:
    with pytest.raises(LaunchError) as raised:
        launch(folder, command)
    assert str(raised.value).startswith(words)


def test_variables_and_folders_are_those_of_the_program(folder: Path) -> None:
    found = launch(folder, "A=1 env B='x y' CUDA_VISIBLE_DEVICES=0,3 python train.py")
    assert found.environment == {"A": "1", "B": "x y", "CUDA_VISIBLE_DEVICES": "0,3"}
    assert (found.devices, found.hides_devices, found.folder) == (2, False, folder)
    assert launch(folder, "CUDA_VISIBLE_DEVICES= python train.py").hides_devices
    found = launch(folder, "srun -D pkg --export=ALL,A=2 python cli.py")
    assert (found.environment, found.as_json()["environment"]["SLURM_PROCID"]) == ({"A": "2"}, "0")
    assert launch(folder, "uv run --directory pkg cli.py").folder == folder / "pkg"
    assert launch(folder, "PYTHONPATH=src:lib python -m fit".replace("fit", "pkg.cli")).sys_path == (
        folder,
        folder / "src",
        folder / "lib",
    )
    assert launch(folder, "bash run.sh 1").environment == {"A": "2"}


def test_a_launch_is_shown_as_one_types_it(folder: Path) -> None:
    found = launch(folder, "A='x y' torchrun --nproc-per-node 2 train.py --name 'a b'")
    assert found.shown == "A='x y' python train.py --name 'a b'"
    assert found.completed == "drygrad run train.py -- --name 'a b'"
    assert found.as_json()["argv"] == ["train.py", "--name", "a b"]
    script = launch(folder, "uv run fit --x")
    assert (script.shown, script.completed) == ("fit --x", "drygrad run -- fit --x")
    assert (script.as_json()["argv"], script.program) == (["fit", "--x"], "pkg.cli:main")
    assert launch(folder, "pytest test_a.py").completed == "drygrad run -- pytest test_a.py"


def test_words_that_are_never_closed_are_none() -> None:
    with pytest.raises(Unclosed):
        split("python train.py 'a")
