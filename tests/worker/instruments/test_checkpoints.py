"""A file that torch.load refuses is blamed on the line that saved what it does not take."""

from __future__ import annotations

from pathlib import Path

from instrument_harness import related, the_fault, watch

from drygrad.worker.instruments.checkpoints import Checkpoints


def test_a_number_of_numpy_is_reported_where_it_was_saved(tmp_path: Path) -> None:
    program = """
import numpy as np
path = __file__ + ".pt"
torch.save({"auc": np.float64(0.5)}, path)
torch.load(path)
"""
    fault = the_fault(
        watch(tmp_path, program.replace("__file__", repr(str(tmp_path / "x"))), Checkpoints), "DG805", 4, "numpy"
    )
    assert related(fault) == {"loaded here": 5}


def test_a_whole_model_is_reported_where_it_is_loaded(tmp_path: Path) -> None:
    path = repr(str(tmp_path / "model.pt"))
    program = f"torch.save(nn.Linear(2, 2), {path})\ntorch.load({path})\n"
    assert related(the_fault(watch(tmp_path, program, Checkpoints), "DG805", 2, "torch.nn")) == {"saved here": 1}
