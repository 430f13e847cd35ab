"""An optimizer that holds a layer which was replaced since is reported where it was made."""

from __future__ import annotations

from pathlib import Path

import pytest
from instrument_harness import related, said, the_fault, watch

from drygrad.worker.instruments.construction import Construction
from drygrad.worker.instruments.replacements import Replacements

SETUP = """
model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2))
def make():
    return torch.optim.SGD(model.parameters(), lr=0.1)
"""
TRAINING = """
for _ in range(2):
    optimizer.zero_grad()
    model(torch.ones(4, 3)).pow(2).sum().backward()
    optimizer.step()
"""


def test_a_head_that_is_replaced_too_late_is_reported(tmp_path: Path) -> None:
    program = SETUP + "optimizer = make()\nmodel[2] = nn.Linear(3, 5)\n" + TRAINING
    fault = the_fault(
        watch(tmp_path, program, Construction, Replacements), "DG715", 4, "holds 2 parameters of replaced layers"
    )
    assert [place.line for _, place in fault.related] == [9]


def test_what_is_frozen_or_given_to_the_optimizer_later_is_not(tmp_path: Path) -> None:
    later = "optimizer.add_param_group({'params': model[2].parameters()})\n"
    program = SETUP + "optimizer = make()\nmodel[2] = nn.Linear(3, 5)\n" + later + TRAINING
    assert said(watch(tmp_path, program, Construction, Replacements)) == []
    frozen = SETUP + "head = model[2]\nmodel[0].requires_grad_(False)\noptimizer = make()\n" + TRAINING
    assert said(watch(tmp_path, frozen, Construction, Replacements)) == []


def test_a_group_that_is_given_by_its_name(tmp_path: Path) -> None:
    later = "optimizer.add_param_group(param_group={'params': model[2].parameters()})\n"
    program = SETUP + "optimizer = make()\nmodel[2] = nn.Linear(3, 5)\n" + later + TRAINING
    run = watch(tmp_path, program, Construction, Replacements)
    assert "error" not in run.result
    assert said(run) == []


COPIED = "import copy\n" + SETUP + "model = copy.deepcopy(model)\noptimizer = make()\n"


@pytest.mark.parametrize("layer", ["nn.Linear(3, 5)", "copy.deepcopy(nn.Linear(3, 5))"])
def test_a_head_of_a_copied_model_is_no_other(tmp_path: Path, layer: str) -> None:
    fault = the_fault(
        watch(tmp_path, COPIED + f"model[2] = {layer}\n" + TRAINING, Construction, Replacements),
        "DG715",
        5,
        "holds 2 parameters of replaced layers",
    )
    assert 8 in related(fault).values()


def test_a_parameter_that_takes_the_place_of_another(tmp_path: Path) -> None:
    program = COPIED + "model[2].bias = nn.Parameter(torch.ones(2))\n" + TRAINING
    the_fault(watch(tmp_path, program, Construction, Replacements), "DG715", 5, "holds 1 parameters of replaced layers")


def test_what_goes_on_in_the_new_layer_is_not_replaced(tmp_path: Path) -> None:
    for change in ("model[2] = nn.Sequential(nn.Dropout(), model[2])\n", "model[2].weight = model[2].weight\n"):
        assert said(watch(tmp_path, COPIED + change + TRAINING, Construction, Replacements)) == []
