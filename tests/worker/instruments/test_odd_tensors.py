"""Tensors that cannot be inspected are passed over: nothing raises, nothing is said, no process ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from simulated import Simulated

PROGRAMS = {
    "checkpoints and custom functions": """
        from torch.utils.checkpoint import checkpoint
        layer, x = nn.Linear(4, 4), torch.randn(3, 4, requires_grad=True)
        for reentrant in (True, False):
            checkpoint(lambda z: layer(z).sin().exp(), x, use_reentrant=reentrant).sum().backward()
        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, a):
                ctx.save_for_backward(a)
                return a * a
            @staticmethod
            def backward(ctx, g):
                return 2 * ctx.saved_tensors[0] * g
        Square.apply(x).sum().backward()
    """,
    "function transforms": """
        x = torch.randn(3, 4)
        torch.func.vmap(torch.func.grad(lambda v: (v**2).sum()))(x)
        torch.func.jacrev(lambda v: v.sin())(x[0])
        torch.func.hessian(lambda v: (v**3).sum())(x[0])
        rows = torch.tensor([[0], [1], [2]])
        torch.func.vmap(lambda v, i: F.embedding(i, v.unsqueeze(0).expand(3, 4)))(x, rows)
        torch.func.vmap(lambda v: v[0] - v)(x)
        torch.func.functionalize(lambda v: v.add_(1)[rows])(x)
        layer = nn.Linear(4, 2)
        losses = lambda parameters, row: torch.func.functional_call(layer, parameters, row[None]).exp().sum()
        parameters = {name: value.detach() for name, value in layer.named_parameters()}
        torch.func.vmap(torch.func.grad(losses), (None, 0))(parameters, x)
        torch.func.jvp(lambda v: v.log(), (x.abs(),), (x,))
        torch.autograd.functional.jacobian(lambda v: v.exp(), x[0], vectorize=True)
        torch.autograd.functional.hessian(lambda v: (v**3).sum(), x[0], vectorize=True)
        y = x.requires_grad_().exp()
        torch.autograd.grad(y, x, torch.eye(12).view(12, 3, 4), is_grads_batched=True)
        broken = lambda v: torch.linalg.cholesky(v[0])
        try:
            torch.func.vmap(torch.func.grad(broken))(x.detach())
        except Exception:
            pass
        (x * 2).sum().backward()
    """,
    "subclasses": """
        from torch.utils._pytree import tree_map
        class Plain(torch.Tensor):
            pass
        plain = torch.randn(3).as_subclass(Plain)
        F.mse_loss(plain, plain * 2).item()
        class Wrapper(torch.Tensor):
            @staticmethod
            def __new__(cls, inner):
                made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
                made.inner = inner
                return made
            @classmethod
            def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
                bare = tree_map(lambda v: v.inner if isinstance(v, Wrapper) else v, (args, kwargs or {}))
                out = func(*bare[0], **bare[1])
                return tree_map(lambda v: Wrapper(v) if isinstance(v, torch.Tensor) else v, out)
        wrapper = Wrapper(torch.randn(3))
        (wrapper + wrapper).sum()
        wrapper[torch.tensor([0])]
        from torch._subclasses.fake_tensor import FakeTensorMode
        with FakeTensorMode() as mode:
            fake = nn.Linear(4, 2)
            fake(torch.randn(3, 4)).exp().sum().backward()
            mode.from_tensor(torch.randn(3))[torch.tensor([0])]
    """,
    "other layouts and dtypes": """
        meta = torch.zeros(3, device="meta")
        (meta + meta).exp()[torch.zeros(1, dtype=torch.long, device="meta")]
        sparse = torch.eye(3).to_sparse()
        (sparse @ torch.randn(3, 3)).sum() + (sparse * 2).sum()
        torch.eye(3).to_sparse_csr() @ torch.randn(3)
        torch.nested.nested_tensor([torch.randn(2), torch.randn(3)]) * 2
        z = torch.randn(3, dtype=torch.complex64)
        (z.conj() - z[:, None]).abs().mean()
        torch.quantize_per_tensor(torch.randn(3), 0.1, 0, torch.quint8).dequantize()
    """,
    "modes, threads and closures": """
        import copy, threading
        x = torch.randn(3, 4, requires_grad=True)
        with torch.inference_mode():
            y = torch.randn(3)
            y[torch.tensor([0])] - y[:, None]
        torch.autograd.functional.hvp(lambda a: (a**2).sum(), x, torch.ones_like(x))
        optimizer = torch.optim.LBFGS([x])
        def closure():
            optimizer.zero_grad()
            loss = (x**2).mean()
            loss.backward()
            return loss
        optimizer.step(closure)
        copy.deepcopy(nn.Linear(3, 3))
        with torch.device("cpu"):
            torch.zeros(3)[torch.tensor([1])]
        thread = threading.Thread(target=lambda: (torch.randn(3, requires_grad=True) ** 2).sum().backward())
        thread.start()
        thread.join()
        torch.distributions.Categorical(logits=torch.randn(3)).sample()
    """,
}


SCRIPT = """
import warnings
from pathlib import Path
from instrument_harness import said, watch
from drygrad.worker.instruments import all_instruments
warnings.simplefilter("ignore")
run = watch(Path({folder!r}), {program!r}, *all_instruments().values())
result = [repr(run.result["error"])] if "error" in run.result else said(run) + run.notes
"""


@pytest.fixture(scope="module")
def process() -> Iterator[Simulated]:
    process = Simulated(enable=False)
    yield process
    process.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_raised_or_said(process: Simulated, tmp_path: Path, name: str) -> None:
    assert process.run(SCRIPT.format(folder=str(tmp_path), program=PROGRAMS[name])) == []
