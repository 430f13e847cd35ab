"""Strides do not matter: a target is called with images in channels-last memory, and gets gradients of such results."""

from __future__ import annotations

import pytest
from verify_lab import Lab, outcome_of, written

CODE = "DG942"
IMAGES = "# dry-run: x=torch.rand(2, 3, 4, 4)\ndef f(x):\n    {}\n    return y\n"
OWN = """
class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight.t()

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        {}
        return grad @ weight, flat.t() @ x.reshape(-1, weight.shape[1])

# dry-run: x=torch.randn(2, 4, 3), weight=torch.randn(5, 3, requires_grad=True)
def f(x, weight):
    return Product.apply(x, weight)
"""
BROKEN = {
    "a view of an image": (IMAGES, "y = x.view(2, -1)", "y = x.reshape(2, -1)"),
    "a view of what is computed elementwise": (IMAGES, "y = (x * 2).view(2, -1)", "y = (x * 2).flatten(1)"),
    "a view of a gradient": (OWN, "flat = grad.view(-1, 5)", "flat = grad.reshape(-1, 5)"),
}
UNTRIED = {
    "scores and labels": """
        # dry-run: x=torch.randn(2, 5, 7), labels=torch.randint(0, 7, (2, 5))
        def f(x, labels):
            return F.cross_entropy(x.view(-1, 7), labels.view(-1))
        """,
    "an image of one color, for which layouts are the same": """
        # dry-run: x=torch.rand(2, 1, 4, 4)
        def f(x):
            return x.view(2, -1)
        """,
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_view_that_only_some_layouts_allow_is_told(case: str, lab: Lab) -> None:
    program, broken, right = BROKEN[case]
    text = program.format(broken)
    line = next(number for number, line in enumerate(written(text).lines, 1) if broken in line)
    assert outcome_of(lab, text, CODE) == ("broken", [(CODE, line, "info")])
    assert outcome_of(lab, program.format(right), CODE) == ("held", [])


@pytest.mark.parametrize("case", UNTRIED)
def test_what_is_no_image_is_left_as_it_is(case: str, lab: Lab) -> None:
    assert outcome_of(lab, UNTRIED[case], CODE) == ("not-tried", [])
