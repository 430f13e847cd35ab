"""Dtypes follow the inputs: a target is called in float64 and in float16, with its parameters in that dtype."""

from __future__ import annotations

import pytest
from verify_lab import Lab, outcome_of, written

CODE = "DG941"
BROKEN = {
    "a factory that an operation refuses": (
        "torch.eye(3)",
        """
        # dry-run: x=torch.randn(4, 3)
        def f(x):
            unit = torch.eye(3)
            return x @ unit
        """,
    ),
    "a dtype that is written down": (
        "torch.ones",
        """
        # dry-run: x=torch.randn(4, 3)
        def f(x):
            ones = torch.ones(3, 2, dtype=torch.float32)
            return x @ ones
        """,
    ),
    "a state by default": (
        "torch.zeros",
        """
        class Cell(nn.Module):
            def __init__(self):
                super().__init__()
                self.input, self.hidden = nn.Linear(3, 5), nn.Linear(5, 5)

            def forward(self, x, h=None):
                if h is None:
                    h = torch.zeros(x.shape[0], 5, device=x.device)
                return torch.tanh(self.input(x) + self.hidden(h))

        # dry-run: cell=Cell(), x=torch.randn(2, 3)
        def f(cell, x):
            return cell(x)
        """,
    ),
    "what wider numbers are written into": (
        "torch.zeros",
        """
        # dry-run: blocks=[torch.randn(2, 2), torch.randn(3, 3)]
        def f(blocks):
            whole = torch.zeros(5, 5)
            whole[:2, :2], whole[2:, 2:] = blocks
            return whole
        """,
    ),
    "what makes a result wider than its inputs": (
        "torch.linspace",
        """
        # dry-run: x=torch.randn(4, 3)
        def f(x):
            weights = torch.linspace(0, 1, 3)
            return x * weights
        """,
    ),
    "a mask that is converted": (
        "mask.float()",
        """
        # dry-run: x=torch.randn(2, 4, 4), mask=torch.ones(4, 4, dtype=torch.bool)
        def f(x, mask):
            weights = mask.float()
            return x @ weights
        """,
    ),
}
RIGHT = {
    "a factory that is told the dtype": "return x @ torch.eye(3, dtype=x.dtype)",
    "a factory that is told it later": "return x @ torch.eye(3).to(x)",
    "a new tensor of the input": "return x @ x.new_ones(3, 3)",
    "a computation in float32 that is converted back": (
        "return torch.softmax(x.float(), -1).type_as(x) @ torch.eye(3).to(x)"
    ),
    "a mask of random numbers": "return x * (torch.rand(4, 3) < 0.5)",
    "a single number": "return x * torch.tensor(2.0) + torch.zeros(())",
    "a result that does not depend on it": "return x * 2, torch.linspace(0, 1, 5)",
    "what is written into an input": "return x.mul_(2) @ x.new_ones(3, 3)",
    "the smallest number of the dtype": "return x.masked_fill(x > 0, torch.finfo(x.dtype).min)",
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_float32_whatever_is_given_is_told_where_it_is_created(case: str, lab: Lab) -> None:
    mark, program = BROKEN[case]
    (line,) = [number for number, text in enumerate(written(program).lines, 1) if mark in text]
    assert outcome_of(lab, program, CODE) == ("broken", [(CODE, line, "info")])


@pytest.mark.parametrize("case", RIGHT)
def test_what_follows_the_dtype_of_its_inputs_holds(case: str, lab: Lab) -> None:
    program = f"# dry-run: x=torch.randn(4, 3)\ndef f(x):\n    {RIGHT[case]}\n"
    assert outcome_of(lab, program, CODE) == ("held", [])


def test_a_number_that_float16_cannot_hold_is_told(lab: Lab) -> None:
    program = "# dry-run: x=torch.randn(4, 3)\ndef f(x):\n    return x.masked_fill(x > 0, -1e9)\n"
    outcome, found = outcome_of(lab, program, CODE)
    assert (outcome, [code for code, _, _ in found]) == ("broken", ["DG409"])


TOLD = {
    "a module that keeps a dtype": """
        class Layer(nn.Module):
            def __init__(self, dtype=torch.float32):
                super().__init__()
                self.dtype = dtype

            def forward(self, x):
                return x @ torch.eye(3)

        # dry-run: layer=Layer(), x=torch.randn(4, 3)
        def f(layer, x):
            return layer(x)
        """,
    "a tensor that came with the inputs": """
        class Table:
            def __init__(self):
                self.held = [[[[torch.eye(3)]]]]

        # dry-run: table=Table(), x=torch.randn(4, 3)
        def f(table, x):
            return x @ table.held[0][0][0][0]
        """,
    "inputs of two widths": """
        # dry-run: x=torch.randn(4, 3), y=torch.randn(3, dtype=torch.float64)
        def f(x, y):
            return x @ torch.eye(3), y
        """,
}


@pytest.mark.parametrize("case", TOLD)
def test_who_is_told_a_dtype_is_left_alone(case: str, lab: Lab) -> None:
    assert outcome_of(lab, TOLD[case], CODE) == ("not-tried", [])


def test_a_module_that_keeps_something_else_as_its_parameters_is_run_and_tried(lab: Lab) -> None:
    program = """
        class Gain(nn.Module):
            def __init__(self):
                super().__init__()
                self.parameters = {"gain": 2.0}

            def forward(self, x):
                return x * self.parameters["gain"]

        # dry-run: layer=Gain(), x=torch.randn(4, 3)
        def f(layer, x):
            return layer(x) @ torch.eye(3)
        """
    record = lab.experimented(written(program), "f")
    assert record.result.outcome == "passed", record.result.notes
    assert any(note.code == CODE and note.outcome == "broken" for note in record.result.tried)
    assert not [one for one in record.result.notes if "failed" in one]
