"""What is called safe: only what keeps outputs and effects equal where the code worked before."""

from __future__ import annotations

import pytest

from drygrad.fixing import apply_edits
from drygrad.static.engine import Analyzer
from drygrad.static.source import Source

PRELUDE = "import torch\nimport torch.nn.functional as F\n"
CASES = {
    "the caller sees its tensor overwritten": (
        "def f(x: torch.Tensor):\n    x.clamp_(min=1e-6)\n    return x.log()\n",
        "DG101",
        "unsafe",
    ),
    "an unannotated argument is the caller's as well": (
        "def f(x):\n    x.clamp_(min=1e-6)\n    return x.log()\n",
        "DG101",
        "unsafe",
    ),
    "a local tensor is seen by nobody else": (
        "def f(w: torch.Tensor):\n    w.requires_grad_()\n    y = w.sigmoid()\n    y.clamp_(min=1e-6)\n"
        "    return y.log().sum()\nf(torch.rand(3)).backward()\n",
        "DG101",
        "safe",
    ),
    "an alias sees the write": (
        "def f(w: torch.Tensor):\n    w.requires_grad_()\n    y = w.sigmoid()\n    z = y\n    y.clamp_(min=1e-6)\n"
        "    return z.log().sum()\nf(torch.rand(3)).backward()\n",
        "DG101",
        "unsafe",
    ),
    "another loss is another training": (
        "def f(x, y):\n    return F.cross_entropy(x.softmax(-1), y)\n",
        "DG304",
        "unsafe",
    ),
}


@pytest.mark.parametrize(("text", "code", "safety"), CASES.values(), ids=CASES.keys())
def test_a_fix_is_as_safe_as_it_says(text: str, code: str, safety: str) -> None:
    findings = [f for f in Analyzer().check(Source(PRELUDE + text)).findings if f.code == code]
    assert [fix.safety for finding in findings for fix in finding.fixes] == [safety]


WRITTEN = "import torch\ndef f():\n    a = torch.zeros(3)\n    b = torch.ones(3, device='cuda')\n    {}\n    return a\n"


@pytest.mark.parametrize(
    ("write", "repaired"),
    [
        ("a.add_(b)", ["a.add_(b.to(a.device))"]),
        ("a.mul_(b + 1)", ["a.mul_((b + 1).to(a.device))"]),
        ("torch.add(b, b, out=a)", []),
        ("a.view(3).lerp_(b, 0.1)", []),
    ],
)
def test_the_target_of_a_write_in_place_is_never_converted(write: str, repaired: list[str]) -> None:
    source = Source(WRITTEN.format(write))
    findings = [finding for finding in Analyzer().check(source).findings if finding.code in ("DG201", "DG205")]
    texts = [apply_edits(source, fix.edits) for finding in findings for fix in finding.fixes]
    assert findings
    assert texts == [WRITTEN.format(text) for text in repaired]
