"""The commands of a shell's text."""

from __future__ import annotations

from pathlib import Path

import pytest

from drygrad.dryrun.launches.shell import Unclosed, Variables, commands

BEHIND = "--more --seed 1 --data /tmp/data --out $OUT/x"
SCRIPT = """\
#!/bin/bash
#SBATCH -N 2
export A=1  # python comment.py
LR=0.1 NAME='a b'
ARGS=(
  --lr $LR
  --name "$NAME"   # a comment
)
ARGS+=(--more)
cd $(dirname "$0")/..
for seed in 1 2 3; do
  python train.py "${ARGS[@]}" --seed $seed --data ${DATA:-/tmp/data} \\
     --out "$OUT/x" >> log 2>&1
done
cat <<EOF > x
python bad.py
EOF
if [ "$A" = 1 ]; then torchrun x.py "$@"; else python y.py $1; fi
python z.py --a='q;r' --b=\\$ "say \\"x\\"" | tee log &
python last.py $(nproc) `date` ${A}b &> all.log
"""


def read(text: str, *arguments: str) -> list[tuple[int, list[str]]]:
    variables = Variables(folder=Path("/s"), arguments=list(arguments))
    return [(command.line, [*command.words]) for command in commands(text, variables)]


def test_the_commands_of_a_script() -> None:
    found = [(line, words) for line, words in read(SCRIPT) if words[0] in ("cd", "python", "torchrun")]
    assert found == [
        (10, ["cd", "/s/.."]),
        (12, ["python", "train.py", "--lr", "0.1", "--name", "a b", *BEHIND.split()]),
        (18, ["torchrun", "x.py"]),
        (18, ["python", "y.py"]),
        (19, ["python", "z.py", "--a=q;r", "--b=$", 'say "x"']),
        (20, ["python", "last.py", "$(nproc)", "`date`", "1b"]),
    ]  # fmt: skip


def test_arguments_of_the_script_stand_for_its_numbers() -> None:
    assert read('python a.py $1 "$@" ${2:-x} ${9:-y}', "p q", "r") == [
        (1, ["python", "a.py", "p", "q", "p q", "r", "r", "y"])
    ]


@pytest.mark.parametrize("text", ["python 'a", 'python "a', "python ${A", "A=(1 2"])
def test_what_is_never_closed_is_no_script(text: str) -> None:
    with pytest.raises(Unclosed):
        read(text)


@pytest.mark.parametrize(
    "text", ["", "\n\n", "#", "(", ">", "&&", "$", "a=", "if", "for x in", "<<EOF\n", "\x00\\", "))((", "${}"]
)
def test_odd_texts_end(text: str) -> None:
    assert isinstance(read(text), list)
