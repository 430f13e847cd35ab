"""Batches that a text names: of functions, and of modules whose layers take any axes."""

from __future__ import annotations

from textwrap import dedent

import pytest
from verify_lab import Lab, written

from drygrad.dryrun.inputs.axes import samples_axis
from drygrad.dryrun.targets import target_named
from drygrad.static.source import Source

TEXTS = {
    "a docstring": ('def f(x):\n    """Return (B, C) of (B, T, C)."""\n', 0),
    "a word for samples": ('def f(x):\n    """x: (clips, frames, 3)"""\n', 0),
    "time comes first": ('def f(x):\n    """x: (time, batch, dim)"""\n', 1),
    "the layout of images": ('def f(x):\n    """x is (N, C, H, W)."""\n', 0),
    "points are no samples": ('def f(x):\n    """x: (N, 3)"""\n', None),
    "several axes": ('def f(x, h):\n    """x: (B, T), h: (layers, B, T)"""\n', None),
    "a comment before the first statement": ("def f(\n    x,  # (batch, time)\n):\n    return x\n", 0),
    "a comment on what is computed": ("def f(x):\n    x = x.mT\n    # (T, B)\n    return x\n", None),
    "an annotation": ("def f(x: Float[Tensor, 'batch time']):\n    return x\n", 0),
    "a shape that is unpacked": ("def f(x):\n    bs, _, c = x.shape\n    return x\n", 0),
    "one size": ("def f(x):\n    batch_size = x.size(1)\n    return x\n", 1),
    "the size of what was made of it": ("def f(x):\n    x = x.mT\n    b, t = x.shape\n    return x\n", None),
    "colours": ('def f(x):\n    """x: (R, G, B)"""\n', None),
    "a pair": ('def f(a, b):\n    """Returns the middle of (a, b)."""\n', None),
    "a call": ('def f(x):\n    """Calls max(b, c)."""\n', None),
    "nothing": ("def f(x):\n    return x\n", None),
}


@pytest.mark.parametrize("case", TEXTS)
def test_a_text_names_the_axis_of_the_samples(case: str) -> None:
    text, axis = TEXTS[case]
    source = Source(text)
    target = target_named(source, "f")
    assert target is not None
    assert samples_axis(source, target) == axis


def test_the_text_of_a_class_is_that_of_its_methods() -> None:
    source = Source('class Net:\n    """(batch, time) to (batch,)"""\n    def forward(self, x):\n        return x\n')
    target = target_named(source, "Net.forward")
    assert target is not None
    assert samples_axis(source, target) == 0


PAIRS = {
    "a product along the batch": (
        "DG923",
        """
        # dry-run: hazard=torch.rand(4, 6)
        def f(hazard):
            \"\"\"Survival up to each interval; hazard: (patients, intervals).\"\"\"
            return torch.cumprod(1.0 - hazard, {})
        """,
        "dim=0",
        "dim=1",
    ),
    "neighbours among the points of all samples": (
        "DG923",
        """
        # dry-run: points=torch.randn(4, 6, 3)
        def f(points):
            b, n, _ = points.shape
            flat = points.reshape(b * n, 3)
            return {}
        """,
        "torch.cdist(flat, flat).mean(1).view(b, n)",
        "flat.norm(dim=1).view(b, n)",
    ),
    "a weight that goes by the sample": (
        "DG936",
        """
        # dry-run: error=torch.rand(4, 6)
        def f(error):
            \"\"\"Weighted error of rollouts (B, T).\"\"\"
            weight = 0.9 ** torch.arange(6.0)
            return ({}).mean()
        """,
        "error * 0.9 ** torch.arange(error.size(0))[:, None]",
        "error * weight",
    ),
    "as many states as there were samples": (
        "DG924",
        """
        class Net(nn.Module):
            \"\"\"(batch, features) to (batch, 3).\"\"\"
            def __init__(self):
                super().__init__()
                self.cell = nn.GRUCell(5, 3)

            # dry-run: x=torch.randn(4, 5)
            def forward(self, x):
                return self.cell(x, {})
        """,
        "torch.zeros(4, 3)",
        "torch.zeros(x.size(0), 3)",
    ),
}


def outcome(lab: Lab, program: str, code: str) -> tuple[str, list[tuple[int, str]]]:
    target = "Net.forward" if "class Net" in program else "f"
    record = lab.experimented(written(program), target, code)
    assert record.result.outcome == "passed", record.result.notes
    (tried,) = record.result.tried
    found = [(f.span.start.line, f.severity) for f in record.findings if f.code == code]
    return tried.outcome, found


@pytest.mark.parametrize("case", PAIRS)
def test_what_breaks_a_relation_of_a_batch_that_the_text_names_is_an_info_at_its_line(case: str, lab: Lab) -> None:
    code, program, broken, right = PAIRS[case]
    text = program.replace("{}", broken)
    line = next(n for n, line in enumerate(written(text).lines, 1) if broken in line)
    assert outcome(lab, text, code) == ("broken", [(line, "info")])
    assert outcome(lab, program.replace("{}", right), code) == ("held", [])


NOT_TRIED = {
    "samples that are meant to meet, by the name": """
        # dry-run: x=torch.randn(4)
        def normalized_advantages(x):
            \"\"\"x: (batch,)\"\"\"
            return x - x.mean()
        """,
    "samples that are meant to meet, by the text": """
        # dry-run: x=torch.randn(4, 3)
        def centered(x):
            \"\"\"Takes the mean over the batch from x: (batch, features).\"\"\"
            return x - x.mean(0)
        """,
    "another axis is the batch": """
        # dry-run: x=torch.randn(4, 3)
        def total(x):
            \"\"\"x: (time, batch)\"\"\"
            return x.cumsum(0)
        """,
    "nothing is said": """
        # dry-run: x=torch.randn(4, 3)
        def total(x):
            return x.cumsum(0)
        """,
}


@pytest.mark.parametrize("case", NOT_TRIED)
def test_what_is_meant_or_not_known_is_not_tried(case: str, lab: Lab) -> None:
    program = NOT_TRIED[case]
    name = dedent(program).split("def ", maxsplit=1)[1].split("(", maxsplit=1)[0]
    (tried,) = lab.experimented(written(program), name, "DG923").result.tried
    assert tried.outcome == "not-tried"


def test_little_of_one_sample_in_another_is_told_from_rounding(lab: Lab) -> None:
    program = """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv1d(3, 4, 3, padding=1)

            # dry-run: x=torch.randn(4, 3, 8)
            def forward(self, x):
                x = self.conv(x)
                return x + 1e-6 * x.sum({})
        """
    whole, own = program.replace("{}", ""), program.replace("{}", "(1, 2), keepdim=True")
    assert outcome(lab, whole, "DG923") == ("broken", [(12, "warning")])
    assert outcome(lab, own, "DG923") == ("held", [])


def test_the_only_dimension_of_an_input_may_count_features(lab: Lab) -> None:
    program = """
        class Net(nn.Module):
            \"\"\"Takes (batch, features).\"\"\"
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(5, 3)

            # dry-run: x=torch.randn(5)
            def forward(self, x):
                return self.linear(x)
        """
    assert outcome(lab, program, "DG924") == ("not-tried", [])
