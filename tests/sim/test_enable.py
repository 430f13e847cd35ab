from __future__ import annotations

from simulated import Simulated


def test_probe_finds_it_working_and_leaves_the_process_alone() -> None:
    plain = Simulated(enable=False)
    try:
        assert plain.run("result = [sim.probe(), torch.cuda.is_available()]") == [None, False]
    finally:
        plain.close()


COUNTED = """
import ctypes
from drygrad.worker.devices.sim import guard
from drygrad.worker.devices.sim.internals import shared_library

one = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_void_p)(lambda this: 1)
table = (ctypes.c_void_p * guard.METHODS)(*[ctypes.cast(one, ctypes.c_void_p).value] * guard.METHODS)
instance = (ctypes.c_void_p * 1)(ctypes.addressof(table))
registry = (ctypes.c_void_p * 2).in_dll(
    ctypes.CDLL(shared_library("c10")), "_ZN3c104impl26device_guard_impl_registryE"
)
registry[guard.CUDA] = ctypes.addressof(instance)
sim.enable()
result = str(torch.ones(2, device="cuda").sum().device)
"""


def test_it_serves_beside_a_gpu_that_torch_has_counted_already() -> None:
    plain = Simulated(enable=False)
    try:
        assert plain.run(COUNTED) == "cuda:0"
    finally:
        plain.close()


def test_a_training_step(sim: Simulated) -> None:
    code = """
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
x, y = torch.randn(8, 3, 8, 8, device="cuda"), torch.randint(5, (8,), device="cuda")
losses = []
for _ in range(5):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
result = [losses[-1] < losses[0], str(loss.device), all(p.grad.is_cuda for p in model.parameters())]
"""
    assert sim.run(code) == [True, "cuda:0", True]


def test_devices_are_checked_in_backward_too(sim: Simulated) -> None:
    code = """
class Away(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        return grad.cpu()
x = torch.ones(3, device="cuda", requires_grad=True)
Away.apply(x).sum().backward()
"""
    assert sim.refusal(code) == (
        "RuntimeError: Function AwayBackward returned an invalid gradient at index 0 - expected device cuda:0 "
        "but got cpu"
    )


FORKS = """
import os
def backward(device):
    x = torch.ones(2, device=device, requires_grad=True)
    (x * x).sum().backward()
    return x.grad.tolist()
def behind_a_fork(device):
    reading, writing = os.pipe()
    if not os.fork():
        try:
            os.write(writing, str(backward(device)).encode())
        except RuntimeError as error:
            os.write(writing, str(error)[:60].encode())
        finally:
            os._exit(0)
    os.wait()
    return os.read(reading, 100).decode()
"""


def test_a_process_that_has_gone_backward_can_be_forked_for_more(sim: Simulated) -> None:
    code = """
sim.stay_forkable()
backward("cpu")
result = [behind_a_fork("cpu"), behind_a_fork("cuda"), str(backward("cuda"))]
"""
    assert sim.run(FORKS + code) == ["[2.0, 2.0]"] * 3
