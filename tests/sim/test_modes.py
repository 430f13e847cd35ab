"""Under dispatch modes, function transforms, checkpointing and threads."""

from __future__ import annotations

import pytest
from simulated import Simulated

pytestmark = pytest.mark.slow

WATCHED = """
from torch.utils._python_dispatch import TorchDispatchMode
class Watch(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func._schema.name)
        return func(*args, **(kwargs or {}))
"""


def test_a_dispatch_mode_sees_the_users_operations_only(sim: Simulated) -> None:
    code = (
        WATCHED
        + """
with Watch() as watch:
    x = torch.tensor([1.0, 2.0], device="cuda", requires_grad=True)
    (x * 2).sum().backward()
result = watch.names
"""
    )
    names = sim.run(code)
    assert [name for name in names if name in {"aten::mul", "aten::sum"}] == ["aten::mul", "aten::sum", "aten::mul"]
    assert "aten::copy_" not in names


def test_a_training_step_under_two_modes(sim: Simulated) -> None:
    code = (
        WATCHED
        + """
model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
with Watch() as outer, Watch() as inner:
    loss = F.cross_entropy(model(torch.randn(2, 1, 4, 4, device="cuda")), torch.tensor([0, 1], device="cuda"))
    loss.backward()
    optimizer.step()
    new = torch.zeros(3, device="cuda"), torch.arange(3, device="cuda"), torch.tensor(5, device="cuda")
result = [outer.names == inner.names, "aten::convolution_backward" in inner.names, "aten::_foreach_sqrt" in inner.names]
"""
    )
    assert sim.run(code) == [True, True, True]


def test_function_transforms(sim: Simulated) -> None:
    code = """
x = torch.randn(3, 2, device="cuda")
f = lambda x: (x.sin() * x).sum()
g = torch.func.vmap(torch.func.grad(f))(x)
hessian = torch.func.hessian(f)(x[0])
_, tangent = torch.func.jvp(f, (x[0],), (torch.ones_like(x[0]),))
expected = x.sin() + x * x.cos()
result = [torch.allclose(g, expected), g.is_cuda, hessian.is_cuda, torch.allclose(tangent, expected[0].sum())]
"""
    assert sim.run(code) == [True] * 4


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_recomputes_the_same_dropout(sim: Simulated, reentrant: bool) -> None:
    code = f"""
from torch.utils.checkpoint import checkpoint
drop = nn.Dropout(0.5)
x = torch.ones(1000, device="cuda", requires_grad=True)
y = checkpoint(drop, x, use_reentrant={reentrant})
y.sum().backward()
result = torch.equal(x.grad, y.detach())
"""
    assert sim.run(code) is True


def test_gradients_of_many_threads(sim: Simulated) -> None:
    code = """
import threading
grads = []
def work(k):
    x = torch.full((4,), float(k), device="cuda", requires_grad=True)
    (x * x).sum().backward()
    grads.append(x.grad[0].item() == 2 * k)
threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
result = grads
"""
    assert sim.run(code) == [True] * 8


def test_anomaly_mode_names_the_operation(sim: Simulated) -> None:
    code = """
with torch.autograd.detect_anomaly():
    x = torch.zeros(3, device="cuda", requires_grad=True)
    (x.sqrt() * 0).sum().backward()
"""
    assert sim.refusal(code) == "RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output."


def test_versions_are_counted(sim: Simulated) -> None:
    code = "x = torch.ones(3, device='cuda', requires_grad=True)\ny = x.exp()\ny.add_(1)\ny.sum().backward()"
    message = sim.refusal(code)
    assert "modified by an inplace operation: [torch.cuda.FloatTensor [3]], which is output 0 of" in message


def test_operators_of_other_libraries_run_on_their_host_kernels(sim: Simulated) -> None:
    code = (
        WATCHED
        + """
library = torch.library.Library("others", "DEF")
library.define("double(Tensor x, Tensor? y=None) -> Tensor")
library.impl("double", lambda x, y=None: x * 2, "CPU")
x = torch.ones(2, device="cuda")
with Watch() as watch:
    doubled = torch.ops.others.double(x)
result = [doubled.is_cuda, doubled.tolist(), watch.names[0]]
"""
    )
    assert sim.run(code) == [True, [2.0, 2.0], "others::double"]
