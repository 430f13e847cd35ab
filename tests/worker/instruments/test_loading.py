"""A checkpoint that does not fit at all is reported; one that fits in part is not."""

from __future__ import annotations

from pathlib import Path

from instrument_harness import said, the_fault, watch

from drygrad.worker.instruments.loading import Loading

SETUP = "net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))\nstate = net.state_dict()\n"


def test_names_with_a_prefix(tmp_path: Path) -> None:
    program = SETUP + "net.load_state_dict({'module.' + k: v for k, v in state.items()}, strict=False)"
    the_fault(
        watch(tmp_path, program, Loading), "DG813", 3, "none of the 4 entries was loaded: they begin with 'module.'"
    )


def test_a_checkpoint_with_more_than_weights(tmp_path: Path) -> None:
    program = SETUP + "net.load_state_dict({'model': state, 'epoch': 3}, strict=False)"
    the_fault(watch(tmp_path, program, Loading), "DG813", 3, "such as 'model' for '0.bias'")


def test_what_fits_in_part(tmp_path: Path) -> None:
    program = SETUP + "net.load_state_dict({'0.weight': state['0.weight'], 'head': 1}, strict=False)\n"
    program += "net.load_state_dict({}, strict=False)\nnn.ReLU().load_state_dict({'a': 1}, strict=False)"
    assert said(watch(tmp_path, program, Loading)) == []


def test_a_state_that_is_given_by_its_name(tmp_path: Path) -> None:
    program = SETUP + "net.load_state_dict(state_dict={'module.' + k: v for k, v in state.items()}, strict=False)"
    run = watch(tmp_path, program, Loading)
    assert "error" not in run.result
    the_fault(run, "DG813", 3, "none of the 4 entries was loaded")
