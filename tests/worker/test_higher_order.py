"""Operators that take functions pass through the instruments, compiled or not, with their values and gradients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from worker_client import WorkerClient, plan

PROGRAMS = {
    "flex_attention": """\
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention
q = torch.randn(1, 2, 128, 16, device=DEVICE, requires_grad=DEVICE == "cuda")
mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 128, 128, device=DEVICE)
out = flex_attention(q, q, q, block_mask=mask)
torch.testing.assert_close(out, scaled_dot_product_attention(q, q, q, is_causal=True), atol=1e-4, rtol=1e-4)
if q.requires_grad:
    out.sum().backward()
    assert q.grad.abs().sum() > 0
""",
    "cond": """\
x = torch.ones(3, device=DEVICE, requires_grad=True)
y = torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x * 3, (x,))
y.sum().backward()
assert y.tolist() == x.grad.tolist() == [2, 2, 2]
""",
    "while_loop": """\
from torch._higher_order_ops.while_loop import while_loop
start = torch.tensor(0, device=DEVICE), torch.ones(3, device=DEVICE)
assert while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), start)[1].tolist() == [8, 8, 8]
""",
    "map": """\
from torch._higher_order_ops.map import map as mapped
assert mapped(lambda x, y: x + y, torch.ones(3, 2, device=DEVICE), torch.ones(2, device=DEVICE)).sum() == 12
""",
    "scan": """\
from torch._higher_order_ops.scan import scan
last, _ = scan(lambda c, x: (c + x, c * x), torch.zeros(2, device=DEVICE), torch.ones(5, 2, device=DEVICE))
assert last.tolist() == [5, 5]
""",
    "out_dtype": """\
from torch._higher_order_ops.out_dtype import out_dtype
x = torch.full((3, 3), 100, dtype=torch.int8, device=DEVICE)
assert out_dtype(torch.ops.aten.mm.default, torch.int32, x, x)[0, 0] == 30000
""",
    "checkpoint": """\
from torch.utils.checkpoint import checkpoint
layer, x = torch.nn.Linear(3, 3, device=DEVICE), torch.ones(2, 3, device=DEVICE, requires_grad=True)
for reentrant in (False, True):
    checkpoint(layer, x, use_reentrant=reentrant).sum().backward()
assert layer.bias.grad.tolist() == [4, 4, 4]
""",
}


@pytest.fixture(scope="module")
def worker() -> Iterator[WorkerClient]:
    with WorkerClient() as client:
        client.receive("ready")
        yield client


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "sim"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_operators_that_take_functions_pass(worker: WorkerClient, tmp_path: Path, name: str, device: str) -> None:
    text = f"import torch\nDEVICE = {'cpu' if device == 'cpu' else 'cuda'!r}\n{PROGRAMS[name]}"
    result = worker.run(plan(tmp_path, text, device=device, timeout=60.0))
    assert result["outcome"] == "passed", result["error"]
    assert not [note for note in result["notes"] if "failed" in note]


SPARSE = """\
import torch
embedding = torch.nn.Embedding(10, 4, sparse=True)
optimizer = torch.optim.SparseAdam(embedding.parameters())
edges = torch.sparse_coo_tensor([[0, 1, 1], [1, 0, 2]], torch.ones(3), (3, 3)).coalesce()
for _ in range(2):
    optimizer.zero_grad()
    (torch.sparse.mm(edges, torch.ones(3, 4)).sum() * embedding(torch.tensor([1, 2]))).sum().backward()
    optimizer.step()
print(edges.to_sparse_csr() @ torch.ones(3, 1))
"""
PULLED_BACK = """\
import torch
from torch.func import grad, hessian, jvp, vjp
f = lambda x: (x ** 3).sum()
x = torch.rand(3, device=DEVICE)
value, pullback = vjp(f, x)
torch.testing.assert_close(pullback(torch.ones_like(value))[0], grad(f)(x))
torch.testing.assert_close(jvp(grad(f), (x,), (x,))[1], hessian(f)(x) @ x)
"""

LAZY = """\
import torch
net = torch.nn.Sequential(torch.nn.LazyLinear(4), torch.nn.ReLU()).to(DEVICE)
net.eval()
net(torch.ones(2, 3, device=DEVICE)).sum().backward()
"""


@pytest.mark.parametrize(
    ("text", "device"),
    [
        (LAZY, "cpu"),
        (LAZY.replace("DEVICE", "'cuda'"), "sim"),
        (SPARSE, "cpu"),
        (PULLED_BACK, "cpu"),
        (PULLED_BACK.replace("DEVICE", "'cuda'"), "sim"),
    ],
)
def test_no_instrument_fails_at_tensors_without_memory_of_their_own(
    worker: WorkerClient, tmp_path: Path, text: str, device: str
) -> None:
    result = worker.run(plan(tmp_path, text.replace("DEVICE", "'cpu'"), device=device))
    assert (result["outcome"], result["instrument_failures"]) == ("passed", [])
