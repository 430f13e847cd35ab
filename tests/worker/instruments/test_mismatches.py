"""Errors of devices, dtypes and shapes are told with the user's names, sizes, and what was expected."""

from __future__ import annotations

from pathlib import Path

import pytest
from instrument_harness import said, watch

from drygrad.worker.instruments.mismatches import Mismatches

CNN = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3)
        self.fc = nn.Linear(100, 10)

    def forward(self, x):
        x = self.conv(x)
        x = x.flatten(1)
        return self.fc(x)

Net()(R(4, 1, 28, 28))
"""

FAULTS = {
    "x=R(4).half()\nx.masked_fill(x>0,-1e9)": (
        "DG409",
        "a number above 65504, the maximum of float16, for a float16 tensor",
    ),
    "fc=nn.Linear(5,3); x=R(4,6)\nfc(x)": ("DG314", "`x` has 6 features, `fc` expects 5"),
    "net=nn.Sequential(nn.Conv2d(1,8,3),nn.ReLU(),nn.Flatten(),nn.Linear(8*28*28,10))\nnet(R(4,1,28,28))": (
        "DG315",
        "the input of `net[3]` has 5408 features after flatten, `net[3]` expects 6272",
    ),
    CNN: ("DG315", "`x` has 5408 features after flatten, `self.fc` expects 100"),
    "a=R(4,5); b=R(6,3)\na@b": ("DG314", "`a` [4, 5] @ `b` [6, 3]: 5 columns do not match 6 rows"),
    "a=R(4,5); v=R(6)\na@v": ("DG314", "`a` [4, 5] @ `v` [6]: 5 columns do not match 6 rows"),
    "a=R(2,4,5); b=R(3,5,3)\na@b": (
        "DG314",
        "`a` [2, 4, 5] and `b` [3, 5, 3] do not broadcast: dimension 0 has 2 and 3",
    ),
    "a=R(2,4,5); b=R(3,5,3)\ntorch.bmm(a,b)": ("DG314", "`a` [2, 4, 5] @ `b` [3, 5, 3]: batches of 2 and 3"),
    "x=R(4,5)\nx.view(3,7)": ("DG314", "`x` [4, 5] has 20 elements; the shape [3, 7] needs 21"),
    "x=R(4,8,5,5)\nx.view(-1,120)": (
        "DG315",
        "`x` [4, 8, 5, 5] has 800 elements; the shape [-1, 120] needs a multiple of 120",
    ),
    "a=R(2,3); b=R(3,4)\ntorch.cat([a,b])": (
        "DG314",
        "`a` [2, 3], `b` [3, 4]: all dimensions except 0 must be equal",
    ),
    "a=R(3); b=R(4)\ntorch.stack([a,b])": ("DG314", "`a` [3], `b` [4]: stack needs equal shapes"),
    "conv=nn.Conv2d(3,8,3); x=R(4,1,28,28)\nconv(x)": ("DG314", "`x` [4, 1, 28, 28] has 1 channel, `conv` expects 3"),
    "conv=nn.Conv2d(3,8,3); x=R(4,28)\nconv(x)": (
        "DG314",
        "`x` [4, 28]: Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [4, 28]",
    ),
    "conv=nn.Conv2d(3,8,3); x=R(4,3,2,2)\nconv(x)": (
        "DG314",
        "`x` [4, 3, 2, 2]: Calculated padded input size per channel: (2 x 2). Kernel size: (3 x 3). Kernel"
        " size can't be greater than actual input size",
    ),
    "bn=nn.BatchNorm2d(3); x=R(4,5,3,3)\nbn(x)": ("DG314", "`x` [4, 5, 3, 3] has 5 channels, `bn` expects 3"),
    "bn=nn.BatchNorm2d(3); x=R(4,3)\nbn(x)": ("DG314", "`x` [4, 3]: expected 4D input (got 2D input)"),
    "nn.BatchNorm1d(3)(R(1,3))": (
        "DG314",
        "`R(1, 3)` [1, 3]: Expected more than 1 value per channel when training, got input size torch.Size([1, 3])",
    ),
    "x=R(4,5)\nnn.LayerNorm(3)(x)": (
        "DG314",
        "`x` [4, 5] does not end in [3], the shape that LayerNorm normalizes over",
    ),
    "lstm=nn.LSTM(3,4); x=R(4,5,7)\nlstm(x)": ("DG314", "`x` [4, 5, 7] has 7 features, `lstm` expects 3"),
    "lstm=nn.LSTM(3,4); x=R(4,5,3)\nlstm(x,(R(1,4,4),R(1,4,4)))": (
        "DG314",
        "the hx of `lstm` [1, 4, 4]: Expected hidden[0] size (1, 5, 4), got [1, 4, 4]",
    ),
    "mha=nn.MultiheadAttention(8,2); q=R(4,5,7)\nmha(q,q,q)": (
        "DG314",
        "`q` [4, 5, 7] has 7 features, `mha` expects 8",
    ),
    "logits=R(4,5); y=torch.zeros(3).long()\nF.cross_entropy(logits,y)": (
        "DG301",
        "`logits` [4, 5] and `y` [3]: 4 rows of scores for 3 targets",
    ),
    "logits=R(2,5,7); y=torch.zeros(2,5).long()\nnn.CrossEntropyLoss()(logits,y)": (
        "DG313",
        "CrossEntropyLoss expects classes in dimension 1; `logits` [2, 5, 7] has 5 there, and `y` [2, 5]"
        " matches its last dimension as the classes (7)",
    ),
    "logits=R(4,5); y=torch.zeros(4,1).long()\nF.cross_entropy(logits,y)": (
        "DG301",
        "`logits` [4, 5] and `y` [4, 1]: class indices need one entry per row of scores, [4]",
    ),
    "logits=R(4,5); y=torch.zeros(4)\nF.cross_entropy(logits,y)": (
        "DG309",
        "`y` is float32, and cross_entropy expects class indices as int64: convert `y` with `.long()`",
    ),
    "logits=R(4,1); y=torch.zeros(4)\nF.binary_cross_entropy_with_logits(logits,y)": (
        "DG301",
        "`logits` [4, 1] and `y` [4]: binary_cross_entropy_with_logits needs equal shapes and does not broadcast",
    ),
    "p=torch.rand(4,1); y=torch.zeros(4)\nnn.BCELoss()(p,y)": (
        "DG301",
        "`p` [4, 1] and `y` [4]: BCELoss needs equal shapes and does not broadcast",
    ),
    "logits=R(4); y=torch.zeros(4).long()\nnn.BCEWithLogitsLoss()(logits,y)": (
        "DG310",
        "`y` is int64, and BCEWithLogitsLoss expects it as a float: convert `y` with `.float()`",
    ),
    "p=torch.rand(4); y=torch.zeros(4).long()\nF.binary_cross_entropy(p,y)": (
        "DG310",
        "`y` is int64, and binary_cross_entropy expects it as a float: convert `y` with `.float()`",
    ),
    "a=R(4,3); b=R(5)\nF.mse_loss(a,b)": ("DG301", "`a` [4, 3] and `b` [5] do not broadcast: dimension 1 has 3 and 5"),
    "fc=nn.Linear(5,3); x=R(4,5).double()\nfc(x)": (
        "DG317",
        "`x` is float64, the weight of `fc` float32: convert `x` with `.float()`",
    ),
    "fc=nn.Linear(5,3); x=torch.zeros(4,5).long()\nfc(x)": (
        "DG317",
        "`x` is int64, the weight of `fc` float32: convert `x` with `.float()`",
    ),
    "a=R(4,5); b=R(5,5).double()\na@b": ("DG317", "`b` is float64, `a` float32: convert `b` with `.float()`"),
    "conv=nn.Conv2d(3,8,3); x=torch.zeros(4,3,9,9,dtype=torch.uint8)\nconv(x)": (
        "DG317",
        "`x` is uint8, the weight of `conv` float32: convert `x` with `.float()`",
    ),
    "emb=nn.Embedding(5,3); x=R(4)\nemb(x)": (
        "DG317",
        "`x` is float32, and an index must be int64: convert `x` with `.long()`",
    ),
    "x=R(5); i=R(2)\nx[i]": ("DG317", "`i` is float32, and an index must be int64: convert `i` with `.long()`"),
    "x=torch.zeros(4).long()\nx.mean()": (
        "DG317",
        "`x` is int64, and mean supports floats only: convert `x` with `.float()`",
    ),
    "x=torch.zeros(4).long()\nF.softmax(x,0)": (
        "DG317",
        "`x` is int64, and softmax supports floats only: convert `x` with `.float()`",
    ),
    "lstm=nn.LSTM(3,4); x=R(4,5,3).double()\nlstm(x)": (
        "DG317",
        "`x` is float64, the weight_ih_l0 of `lstm` float32: convert `x` with `.float()`",
    ),
    "ln=nn.LayerNorm(3); x=R(4,3).double()\nln(x)": (
        "DG317",
        "`x` is float64, the weight of `ln` float32: convert `x` with `.float()`",
    ),
    "q=R(1,2,3,4); k=q.double()\nF.scaled_dot_product_attention(q,k,q)": (
        "DG317",
        "`k` is float64, `q` float32: convert `k` with `.float()`",
    ),
    "x=R(4); m=torch.zeros(3).bool()\nx[m]": (
        "DG314",
        "`x` [4], `m` [3]: The shape of the mask [3] at index 0 does not match the shape of the indexed"
        " tensor [4] at index 0",
    ),
    "x=R(3,4)\nx.sum(2)": (
        "DG314",
        "`x` [3, 4]: Dimension out of range (expected to be in range of [-2, 1], but got 2)",
    ),
    "x=R(4); y=R(2)\nx[0:3]=y": ("DG314", "`y` [2] does not fit in [3]: dimension 0 has 2, not 3"),
    "a=R(3,4); b=R(5,6)\ntorch.einsum('ij,jk->ik',a,b)": (
        "DG314",
        "`a` [3, 4], `b` [5, 6]: einsum(): subscript j has size 5 for operand 1 which does not broadcast"
        " with previously seen size 4",
    ),
    "x=R(4,3,requires_grad=True); crit=nn.CrossEntropyLoss(weight=R(2))\ncrit(x, torch.zeros(4).long())": (
        "DG301",
        "`x` [4, 3], `torch.zeros(4).long()` [4]: weight tensor should be defined either for all 3 classes"
        " or no classes but got weight tensor of shape: [2]",
    ),
    "model=nn.Linear(3,2)\ndef f(x,y):\n    return F.mse_loss(model(x), y)\nf(R(4,3), R(5,2))": (
        "DG301",
        "`model(x)` [4, 2] and `y` [5, 2] do not broadcast: dimension 0 has 4 and 5",
    ),
}

NOT_OURS = [
    "x = {}\nx['a']",
    "raise ValueError('expected size of things')",
    "assert torch.ones(2).shape == (3,), 'expected 2D input'",
    "int('x')",
    "x = 1\nx.shape",
]


@pytest.mark.parametrize("program", FAULTS)
def test_an_error_is_explained(tmp_path: Path, program: str) -> None:
    run = watch(tmp_path, "R = torch.randn\n" + program, Mismatches)
    assert said(run) == [FAULTS[program]]
    assert run.faults[0].detail == str(run.result["error"])


@pytest.mark.parametrize("program", NOT_OURS)
def test_other_errors_are_left_alone(tmp_path: Path, program: str) -> None:
    run = watch(tmp_path, program, Mismatches)
    assert "error" in run.result
    assert said(run) == []


def test_the_facts_say_what_a_fix_needs(tmp_path: Path) -> None:
    run = watch(tmp_path, "fc, x = nn.Linear(5, 3), torch.zeros(4, 5).double()\nfc(x)", Mismatches)
    assert run.faults[0].facts == {"operand": "x", "role": "mat1", "dtype": "float64", "wanted": "float32"}
    run = watch(tmp_path, "fc, x = nn.Linear(5, 3), torch.zeros(4, 6)\nfc(x)", Mismatches)
    assert run.faults[0].facts == {"operand": "x", "shape": [4, 6], "wanted": 5, "found": 6}


def test_the_innermost_line_of_the_users_is_the_place(tmp_path: Path) -> None:
    run = watch(tmp_path, "R = torch.randn\n" + CNN, Mismatches)
    place = run.faults[0].at
    assert place is not None
    text = Path(tmp_path / "program.py")
    assert place.path == str(text)
    assert place.line == 5 + CNN.splitlines().index("        return self.fc(x)")
