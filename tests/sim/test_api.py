"""``torch.cuda`` and what programs do with tensors on it."""

from __future__ import annotations

import pytest
from simulated import Simulated

# Each prepares nothing but ``x``, ones of length 3 on the device, and must be true.
TRUE = """
torch.cuda.is_available() and torch.cuda.device_count() == 1 and torch.cuda.current_device() == 0
torch.cuda.get_device_name() == torch.cuda.get_device_properties(0).name == "Simulated NVIDIA GPU"
torch.cuda.get_device_capability() == (9, 0) and torch.cuda.is_bf16_supported()
torch.cuda.get_device_properties("cuda").total_memory == 80 << 30 and torch.cuda.is_initialized()
torch.cuda.get_arch_list() == ["sm_90"] and torch.version.cuda is not None and torch.backends.cuda.is_built()
torch.accelerator.is_available() and torch.accelerator.current_accelerator().type == "cuda"
torch.accelerator.device_count() == 1 and torch.accelerator.current_device_index() == 0
torch.accelerator.synchronize() is None
torch.get_device_module("cuda") is torch.cuda and torch.get_device_module() is torch.cuda
isinstance(torch.cuda.memory_summary(), str) and torch.cuda.memory_stats()["num_ooms"] == 0
torch.cuda.empty_cache() is None and torch.cuda.ipc_collect() is None
x.type() == "torch.cuda.FloatTensor" and x.is_cuda and x.get_device() == 0 and x.device == torch.device("cuda:0")
isinstance(x, torch.cuda.FloatTensor) and not isinstance(x, torch.cuda.LongTensor)
not isinstance(x.cpu(), torch.cuda.FloatTensor) and isinstance(x.cpu(), torch.FloatTensor)
torch.cuda.FloatTensor(3).shape == (3,) and torch.cuda.LongTensor([1, 2]).tolist() == [1, 2]
torch.cuda.HalfTensor([1]).dtype is torch.half and torch.cuda.FloatTensor([1.0]).device.type == "cuda"
x.cpu().type("torch.cuda.DoubleTensor").dtype is torch.double and x.cpu().type(torch.cuda.FloatTensor).is_cuda
x.cpu().type_as(x).is_cuda and x.new_zeros(2).is_cuda and torch.zeros_like(x).is_cuda
type(x) is torch.Tensor and isinstance(nn.Parameter(x), nn.Parameter)
torch.Generator(device="cuda").device == torch.device("cuda:0") and torch.Generator().device.type == "cpu"
isinstance(torch.Generator(), torch.Generator) and isinstance(torch.default_generator, torch.Generator)
torch.equal(*[torch.rand(9, device="cuda", generator=torch.Generator("cuda").manual_seed(3)) for _ in range(2)])
torch.cuda.default_generators[0].initial_seed() == torch.cuda.initial_seed()
x.record_stream(torch.cuda.current_stream()) is None
torch.cuda.current_stream() == torch.cuda.default_stream() and isinstance(torch.cuda.Stream(), torch.Stream)
torch.cuda.Stream() != torch.cuda.Stream() and torch.cuda.Stream(priority=-1).priority == -1
torch.cuda.Stream().wait_stream(torch.cuda.current_stream()) is None and torch.cuda.Stream().query()
isinstance(torch.cuda.Stream().record_event(), torch.cuda.Event) and torch.cuda.Event(blocking=True).query()
torch.cuda.nvtx.range_push("a") == 0 and torch.cuda.nvtx.range_pop() == 0 and torch.cuda.nvtx.mark("b") is None
torch.cuda.amp.GradScaler().get_scale() == 65536.0 and torch.is_autocast_enabled("cuda") is False
__import__("copy").deepcopy(x).is_cuda and __import__("copy").deepcopy(nn.Linear(2, 2).cuda()).weight.is_cuda
__import__("pickle").loads(__import__("pickle").dumps(x)).device == x.device
x.share_memory_() is x and x.is_shared() and x.untyped_storage().device.type == "cuda"
x.untyped_storage().cpu().device.type == "cpu" and x.cpu().untyped_storage().cuda().device.type == "cuda"
torch.cuda.is_current_stream_capturing() is False and torch.cuda.graphs.is_current_stream_capturing() is False
x.cpu().pin_memory().is_pinned() and not x.cpu().is_pinned() and not x.is_pinned()
x.data_ptr() > 0 and x.__cuda_array_interface__["shape"] == (3,) and torch.from_dlpack(x).device == x.device
nn.Linear(3, 2, device="cuda")(x).shape == (2,) and next(nn.Linear(3, 2).to("cuda").parameters()).is_cuda
torch.jit.script(nn.Linear(3, 3)).cuda()(x).is_cuda and torch.jit.trace(nn.Linear(3, 3).cuda(), x)(x).is_cuda
torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], device="cuda").is_cuda
torch.stft(torch.ones(64, device="cuda"), 16, return_complex=True).is_cuda
(torch.randn(3, dtype=torch.cfloat, device="cuda").conj().imag.neg() + 0).is_cuda
x.conj().is_cuda and torch.equal((x * 1j).conj().resolve_conj().imag, -x) and (x * 1j).conj().imag[0].item() == -1
x.to(torch.float8_e4m3fn).dtype is torch.float8_e4m3fn and (x.half() @ x.half()).dtype is torch.half
torch.backends.cudnn.flags(enabled=True, benchmark=True).__enter__() is None
torch.utils.data.default_collate([x, x]).shape == (2, 3)
(torch.arange(3, device="cuda") // torch.tensor([1, 0, 2], device="cuda")).tolist() == [0, -1, 1]
(torch.arange(3, device="cuda").remainder_(0)).tolist() == [-1, -1, -1]
torch.histc(torch.tensor([1, 2, 2], device="cuda"), 3, 1, 3).tolist() == [1, 2, 0]
repr(x) == "tensor([1., 1., 1.], device='cuda:0')"
x[torch.tensor([0, 1])].is_cuda and x[0].item() == 1.0 and x.tolist() == [1.0] * 3
(x.half() + 1.0).dtype is torch.half and (x[0].half() + 1.0).dtype is torch.half
(x.long() + 1.5).dtype is torch.float and (x.bool() + 1).dtype is torch.long
""".strip().splitlines()


@pytest.mark.parametrize("expression", TRUE)
def test_true(sim: Simulated, expression: str) -> None:
    assert sim.run(f"x = torch.ones(3, device='cuda')\nresult = bool({expression})") is True


PROGRAMS = {
    "default device": """
torch.set_default_device("cuda")
result = [torch.ones(2).is_cuda, nn.Linear(2, 2)(torch.ones(1, 2)).is_cuda, torch.randperm(4).is_cuda]
torch.set_default_device("cpu")
result.append(torch.ones(2).device.type == "cpu")
""",
    "device as a context": """
with torch.device("cuda"):
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    y = model(torch.randn(4, 2)).sum()
    y.backward()
result = [y.is_cuda, model[0].weight.grad.is_cuda, torch.ones(1).device.type == "cpu"]
""",
    "default dtype": """
torch.set_default_dtype(torch.float64)
made, computed = torch.ones(2, device="cuda"), torch.arange(2, device="cuda") / 2
result = [made.dtype is torch.float64, computed.dtype is torch.float64]
""",
    "loader with pinned memory": """
data = torch.utils.data.TensorDataset(torch.ones(4, 2), torch.arange(4))
loader = torch.utils.data.DataLoader(data, batch_size=2, pin_memory=True)
result = [x.is_pinned() and x.to("cuda", non_blocking=True).is_cuda for x, _ in loader]
""",
    "a stream as a context": """
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    inside = torch.cuda.current_stream() == stream
with stream:
    also = torch.cuda.current_stream() == stream
result = [inside, also, torch.cuda.current_stream() == torch.cuda.default_stream()]
""",
    "timing with events": """
first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
first.record()
torch.ones(9, device="cuda").sum()
last.record()
last.synchronize()
result = [first.elapsed_time(last) > 0]
""",
    "mixed precision": """
model, x = nn.Linear(3, 2).cuda(), torch.ones(4, 3, device="cuda")
optimizer, scaler = torch.optim.AdamW(model.parameters()), torch.amp.GradScaler("cuda")
with torch.autocast("cuda", dtype=torch.float16):
    y = model(x)
    loss = F.cross_entropy(y, torch.zeros(4, dtype=torch.long, device="cuda"))
scaler.scale(loss).backward()
scaler.unscale_(optimizer)
nn.utils.clip_grad_norm_(model.parameters(), 1.0)
scaler.step(optimizer)
scaler.update()
with torch.cuda.amp.autocast():
    old = model(x).dtype is torch.float16
result = [y.dtype is torch.float16, loss.dtype is torch.float32, scaler.get_scale() == 65536.0, old]
""",
    "softmax of half precision under autocast": """
result = []
for function in (F.softmax, F.log_softmax):
    x = torch.randn(2, 5, device="cuda").half().requires_grad_()
    wanted = x.detach().float().requires_grad_()
    with torch.autocast("cuda", dtype=torch.float16):
        y = function(x, dim=-1)
    y.square().sum().backward()
    function(wanted, dim=-1).square().sum().backward()
    result += [y.dtype is torch.float32, torch.equal(y, function(wanted, dim=-1)), x.grad.dtype is torch.float16]
    result += [torch.allclose(x.grad.float(), wanted.grad, atol=1e-2)]
""",
    "attention with dropout has no weights in memory": """
q = torch.randn(1, 4, 1024, 8, device="cuda", requires_grad=True)
before = torch.cuda.memory_allocated()
out = F.scaled_dot_product_attention(q, q, q, dropout_p=0.1)
out.sum().backward()
result = [torch.cuda.max_memory_allocated() - before < 4 * 1024 * 1024, bool(q.grad.abs().sum() > 0)]
""",
    "saving and loading": """
import io
model = nn.Linear(2, 2).cuda()
file = io.BytesIO()
torch.save({"model": model.state_dict(), "rng": torch.cuda.get_rng_state()}, file)
loaded = []
for place in (None, "cpu", "cuda", "cuda:0", torch.device("cuda"), lambda storage, location: storage):
    file.seek(0)
    loaded.append(torch.load(file, map_location=place)["model"]["weight"].device.type)
model.load_state_dict({name: value.cpu() for name, value in model.state_dict().items()})
result = [loaded == ["cuda", "cpu", "cuda", "cuda", "cuda", "cpu"], model.weight.is_cuda]
""",
    "random state": """
state = torch.cuda.get_rng_state()
assert state.shape == (16,) and torch.equal(state, torch.cuda.get_rng_state())
first = torch.rand(4, device="cuda")
torch.cuda.set_rng_state(state)
second = torch.rand(4, device="cuda")
torch.cuda.manual_seed_all(1)
third = torch.rand(4, device="cuda")
torch.cuda.manual_seed(1)
result = [torch.equal(first, second), torch.equal(third, torch.rand(4, device="cuda")), not torch.equal(first, third)]
""",
    "recurrent networks": """
x = torch.randn(2, 3, 4, device="cuda")
result = []
for kind in (nn.LSTM, nn.GRU, nn.RNN):
    torch.manual_seed(0)
    device = kind(4, 5, 2, batch_first=True).cuda()
    host = kind(4, 5, 2, batch_first=True)
    host.load_state_dict({name: value.cpu() for name, value in device.state_dict().items()})
    ours, theirs = device(x)[0], host(x.cpu())[0]
    ours.sum().backward(), theirs.sum().backward()
    result += [torch.allclose(ours.cpu(), theirs, atol=1e-6)]
    result += [torch.allclose(device.weight_ih_l0.grad.cpu(), host.weight_ih_l0.grad, atol=1e-5)]
""",
    "transformer": """
layer = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, batch_first=True), 2).cuda()
x = torch.randn(2, 3, 16, device="cuda")
layer(x).sum().backward()
with torch.no_grad():
    fast = layer.eval()(x, src_key_padding_mask=torch.zeros(2, 3, dtype=torch.bool, device="cuda"))
result = [fast.is_cuda, all(p.grad is not None for p in layer.parameters())]
""",
    "optimizers": """
from torch.optim import SGD, Adagrad, AdamW, RMSprop
result = []
for kind, options in [(AdamW, {}), (AdamW, {"foreach": False}), (AdamW, {"fused": True}), (AdamW, {"capturable": True}),
                      (SGD, {"foreach": True}), (SGD, {"fused": True}), (RMSprop, {}), (Adagrad, {})]:
    w, v = (nn.Parameter(torch.ones(3, device=d)) for d in ("cuda", "cpu"))
    for parameter in (w, v):
        optimizer = kind([parameter], lr=0.1, **(options if parameter.is_cuda else {}))
        for _ in range(3):
            optimizer.zero_grad()
            (parameter ** 2).sum().backward()
            optimizer.step()
    result.append(torch.allclose(w.cpu(), v, atol=1e-5))
""",
    "operators of a library that is loaded late": """
from drygrad.worker.devices.sim import internals, registration
library = torch.library.Library("late", "FRAGMENT")
def load(path):
    library.define("next(Tensor x) -> Tensor")
    library.impl("next", lambda x: x + 1, "CPU")
    library.impl("next", lambda x: 1 / 0, "CUDA")
internals.ops.load_library = load
registration._serve_libraries()
torch.ops.load_library("late.so")
y = torch.ops.late.next(torch.ones(2, device="cuda"))
result = [y.is_cuda, y.tolist() == [2.0, 2.0]]
""",
    "half precision is rounded from single": """
from drygrad.worker.devices.sim.special.half import in_single_precision
x = torch.randn(2, 3, 8, 8, device="cuda", dtype=torch.half, requires_grad=True)
w = torch.randn(4, 3, 3, 3, device="cuda", dtype=torch.half, requires_grad=True)
F.conv2d(x, w).sum().backward()
wide = [t.detach().float().requires_grad_() for t in (x, w)]
F.conv2d(*wide).sum().backward()
result = [torch.equal(t.grad, u.grad.half()) for t, u in zip((x, w), wide)]
product = in_single_precision(torch.ops.aten.addmm.default)
a, b = torch.randn(5, 5), torch.randn(5, 5)
sums = product(a.half(), a.half(), b.half(), beta=2)
result += [torch.equal(sums, torch.addmm(a.half().float(), a.half().float(), b.half().float(), beta=2).half())]
try:
    product(a, a.half(), b.half())
    result += [False]
except RuntimeError:
    result += [True]
""",
    "profiler": """
from torch.profiler import ProfilerActivity, profile
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
    torch.ones(3, device="cuda").sum()
result = [len(p.key_averages()) > 0]
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(sim: Simulated, name: str) -> None:
    result = sim.run(PROGRAMS[name])
    assert result and all(result), result


TWO = {
    "devices are numbered": """
x = torch.ones(2, device="cuda:1")
with torch.cuda.device(1):
    y, inside = torch.ones(2, device="cuda"), torch.cuda.current_device()
with torch.cuda.device_of(x):
    z = torch.ones(2, device="cuda")
torch.cuda.set_device(1)
result = [y.device == x.device == z.device, inside == 1]
result += [torch.cuda.current_device() == 1, torch.ones(1).cuda().get_device() == 1]
torch.accelerator.set_device_index(0)
result += [torch.cuda.current_device() == 0, (x + 1).get_device() == 1, x.to("cuda:0").get_device() == 0]
""",
    "gradients stay on their devices": """
w, v = (torch.ones(2, device=f"cuda:{k}", requires_grad=True) for k in range(2))
(w.to("cuda:1") * v).sum().backward()
result = [w.grad.get_device() == 0, v.grad.get_device() == 1]
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TWO)
def test_two_devices(two: Simulated, name: str) -> None:
    result = two.run(TWO[name])
    assert all(result), result


def test_two_devices_do_not_mix(two: Simulated) -> None:
    message = two.refusal("torch.ones(2, device='cuda:1') + torch.ones(2, device='cuda:0')")
    assert message.endswith("found at least two devices, cuda:1 and cuda:0!")


def test_a_scalar_of_the_host_is_read_but_not_written(sim: Simulated) -> None:
    assert sim.run("x = torch.ones(2, device='cuda'); x += torch.tensor(1.0); result = x.tolist()") == [2.0, 2.0]
    for write in ("t += torch.ones((), device='cuda')", "torch._foreach_add_([t], [torch.ones((), device='cuda')])"):
        message = sim.refusal(f"t = torch.tensor(0.0)\n{write}")
        assert message.endswith("found at least two devices, cuda:0 and cpu!")


def test_the_configuration_is_shown(sim: Simulated) -> None:
    assert "PyTorch built with" in sim.run("result = torch.__config__.show() + torch.__config__.parallel_info()")
