"""What the simulated device cannot do is no fault of the user's."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulated import Simulated

UNSUPPORTED = [
    "torch.cuda.CUDAGraph()",
    "torch.cuda.graph(None)",
    "torch.cuda.make_graphed_callables(nn.Linear(2, 2), ())",
    "torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,), device='cuda')",
    "torch.ones(3, device='cuda').to_sparse()",
    "torch.ones(3, 3, device='cuda').to_sparse_csr()",
    "torch.quantize_per_tensor(torch.ones(3, device='cuda'), 0.1, 0, torch.qint8)",
    "import torch.utils.cpp_extension\ntorch.utils.cpp_extension.load('name', ['kernel.cu'])",
    "import torch.utils.cpp_extension as e\ne.load_inline('name', '')",
    "q = torch.ones(1, 2, 2, 8, device='cuda').half()\n"
    "torch.ops.aten._flash_attention_forward(q, q, q, None, None, 2, 2, 0.0, False, False)",
    "torch.cuda.cudart()",
    "torch.cuda.jiterator._create_jit_fn('template <typename T> T f(T x) { return x; }')(torch.ones(2, device='cuda'))",
]


@pytest.mark.parametrize("code", UNSUPPORTED)
def test_unsupported(sim: Simulated, code: str) -> None:
    assert sim.refusal(code).startswith("Unsupported: ")


def test_triton_kernels_when_there_is_triton(sim: Simulated, tmp_path: Path) -> None:
    folder = tmp_path / "triton" / "runtime"
    folder.mkdir(parents=True)
    (folder / "jit.py").write_text("class JITFunction:\n    def run(self): return 1\n")
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from triton.runtime.jit import JITFunction
JITFunction.run(None)
"""
    assert sim.refusal(code) == "Unsupported: the simulated device has no Triton kernels"


def test_data_parallel_needs_one_device_only(sim: Simulated, two: Simulated) -> None:
    code = "result = list(nn.DataParallel(nn.Linear(3, 2).cuda())(torch.ones(4, 3).cuda()).shape)"
    assert sim.run(code) == [4, 2]
    assert two.refusal(code).startswith("Unsupported: ")


def test_compiling_does_nothing_and_says_so(sim: Simulated) -> None:
    code = """
@torch.compile(mode="max-autotune")
def f(x):
    return x + 1
model = nn.Linear(2, 2)
model.compile()
same = torch.compile(model) is model
result = [same, f(torch.ones(1, device="cuda")).tolist(), sim.notes]
"""
    same, value, notes = sim.run(code)
    assert same and value == [2.0]
    assert len(notes) == 1 and "torch.compile" in notes[0]
