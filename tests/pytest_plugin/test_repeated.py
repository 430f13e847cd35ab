"""``pytest --drygrad`` with real runs."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

MODEL = """\
import torch
from torch import nn

KEPT = []


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 1)
        self.scale = torch.ones(1)

    def forward(self, x):
        return self.head(x) * self.scale


def loss(prediction, target):
    return ((prediction - target) ** 2).mean()
"""
TESTS = """\
import pytest
import torch
from model import Net, loss

device = "cuda" if torch.cuda.is_available() else "cpu"


def test_right():
    assert Net()(torch.randn(3, 4)).shape == (3, 1)


@pytest.mark.parametrize("n", [3, 8])
def test_loss(n):
    loss(Net()(torch.randn(n, 4)), torch.randn(n)).backward()


def test_on_the_device():
    Net().to(device)(torch.randn(3, 4, device=device))


@pytest.mark.no_drygrad
def test_marked():
    Net().to(device)(torch.randn(3, 4, device=device))


def test_wrong():
    assert Net()(torch.randn(3, 4)).shape == (3, 2)


def test_needs_the_network():
    import socket
    try:
        socket.create_connection(("localhost", 9), timeout=0.1).close()
    except ConnectionRefusedError:
        pass
"""


@pytest.mark.slow
def test_what_is_repeated_is_told_of_the_tests_that_show_it(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\npythonpath = .\naddopts = --drygrad --drygrad-device=sim\n")
    pytester.makepyfile(model=MODEL, test_model=TESTS, test_plain="def test_plain():\n    pass\n")
    result = pytester.runpytest_subprocess("--drygrad-time=600")
    assert result.ret == 1
    result.assert_outcomes(passed=7, failed=3)
    result.stdout.fnmatch_lines_random(
        [
            "FAILED test_model.py::test_loss?3? - drygrad: test_model.py:14:*",
            "FAILED test_model.py::test_on_the_device - drygrad: model.py:11:*",
            "test_model.py:14:5: warning?DG303?*",
            "model.py:11:9: error?DG204?*",
            "*fix (verified, unsafe*): Register it as a buffer",
            "FAILED test_model.py::test_wrong - *",
            "test_model.py::test_needs_the_network: in the sandbox: *",
        ]
    )
    assert "DG907" not in result.stdout.str(), "what pytest has told, or the sandbox alone has, is no finding"
