"""Programs without memory take what they take with it, and are told what they ask of values."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from simulated import Simulated

BLOCK = """
from torch.utils.checkpoint import checkpoint
class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))
    def forward(self, x):
        q, k, v = (p.unflatten(-1, (4, -1)).transpose(1, 2) for p in self.qkv(self.norm(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.mlp(x)
blocks = nn.ModuleList([Block(128) for _ in range(2)]).cuda()
"""
CONVOLUTIONS = """
model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(inplace=True), nn.MaxPool2d(2),
                      nn.Dropout(0.1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
images, labels = torch.randn(16, 3, 64, 64), torch.randint(0, 10, (16,))
"""
PROGRAMS = {
    "mixed precision, scaled": CONVOLUTIONS
    + """
model, scaler = model.cuda(), torch.amp.GradScaler("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for _ in range(2):
    with torch.autocast("cuda", torch.float16):
        loss = F.cross_entropy(model(images.cuda()), labels.cuda())
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
""",
    "checkpoints": BLOCK
    + """
optimizer = torch.optim.AdamW(blocks.parameters())
for _ in range(2):
    x = torch.randn(8, 256, 128, device="cuda", requires_grad=True)
    with torch.autocast("cuda", torch.bfloat16):
        for block in blocks:
            x = checkpoint(block, x, use_reentrant=False)
    x.float().pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
""",
    "attention with positions before batches": """
layer = nn.TransformerEncoderLayer(256, 8, 512, 0.0, batch_first=True).cuda()
for _ in range(2):
    layer(torch.randn(4, 192, 256, device="cuda")).square().mean().backward()
""",
    "recurrent": """
model = nn.GRU(64, 128, 2, batch_first=True, bidirectional=True).cuda()
out, _ = model(torch.randn(32, 16, 64, device="cuda"))
out.transpose_(0, 1).sum().backward()
""",
    "copied weights": """
import copy
model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(3)))
slow = copy.deepcopy(model).cuda()
model.cuda()
for a, b in zip(slow.parameters(), model.parameters()):
    a.data.mul_(0.9).add_(b.data, alpha=0.1)
model.load_state_dict(slow.state_dict())
""",
    "transformed": """
from torch.func import functional_call, grad, vmap
model, x = nn.Linear(1024, 1024).cuda(), torch.randn(512, 1024, device="cuda")
grad(lambda weights: functional_call(model, weights, (x,)).pow(2).mean())(dict(model.named_parameters()))
vmap(lambda row: row @ model.weight)(x.unflatten(0, (8, 64)))
""",
    "gradients of gradients": CONVOLUTIONS
    + """
model, x = model.cuda(), images.cuda().requires_grad_()
(slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
slope.pow(2).mean().backward()
""",
    "functions that operators take": """
from torch.nn.attention.flex_attention import flex_attention
q = torch.randn(2, 4, 256, 32, device="cuda", requires_grad=True)
flex_attention(q, q, q, score_mod=lambda score, b, h, i, j: score + i - j).square().mean().backward()
""",
    "kernels beside what they could be made of": """
F.silu(F.silu(torch.randn(64, 4096, device="cuda", requires_grad=True))).sum().backward()
""",
    "inference": """
layer = nn.MultiheadAttention(256, 4, batch_first=True, device="cuda").eval()
with torch.inference_mode():
    x = torch.randn(8, 300, 256, device="cuda")
    split = x.unflatten(2, (4, 64)).transpose(1, 2)
    layer(x, x, x)[0].transpose(1, 2).reshape(-1), split @ split.transpose(-1, -2)
""",
    "kept on the host": BLOCK
    + """
x = torch.randn(8, 256, 128, device="cuda")
with torch.autograd.graph.save_on_cpu():
    out = blocks[0](x)
out.sum().backward()
""",
}


@pytest.fixture(scope="module")
def device() -> Iterator[Simulated]:
    simulated = Simulated(total_memory=1 << 45)
    yield simulated
    simulated.close()


def without_memory(program: str) -> str:
    return f"import without_memory\nresult = without_memory.executed({program!r}, really=False)"


@pytest.mark.slow
def test_the_peak_is_that_of_a_run_with_memory(device: Simulated) -> None:
    def peaks(*, really: bool) -> dict[str, int]:
        # Each in a fork of its own: autograd's thread may still hold the last gradient of the program before.
        code = "import without_memory\nresult = without_memory.executed({!r}, really={})['peak']"
        return {name: device.run(code.format(program, really)) for name, program in PROGRAMS.items()}

    virtual, real = peaks(really=False), peaks(really=True)
    assert all(virtual.values())
    assert virtual == real


@pytest.mark.slow
def test_what_no_machine_has(device: Simulated) -> None:
    told = device.run(
        without_memory("""
weights = torch.nn.Linear(1 << 18, 1 << 19, dtype=torch.bfloat16).to("cuda")
out = weights(torch.randn(4096, 1 << 18, device="cuda", dtype=torch.bfloat16))
result = [str(out.device), list(out.shape), out.untyped_storage().nbytes(), out[0, :2].detach().cpu().tolist()]
""")
    )
    assert told["result"] == ["cuda:0", [4096, 1 << 19], 2 * 4096 << 19, [0.0, 0.0]]
    assert told["peak"] == 2 * ((1 << 18) * (1 << 19) + (1 << 19) + 4096 * (1 << 18) + 4096 * (1 << 19))
    assert told["assumed"] == ["values read outside of torch were taken to be 0"]


def test_attention_never_has_its_weights_in_memory(device: Simulated) -> None:
    told = device.run(
        without_memory("""
q, k = (torch.randn(1, heads, 512, 64, device="cuda", requires_grad=True) for heads in (16, 4))
F.scaled_dot_product_attention(q, k, k, enable_gqa=True, dropout_p=0.1).sum().backward()
result = [list(q.grad.shape), list(k.grad.shape)]
""")
    )
    assert told["result"] == [[1, 16, 512, 64], [1, 4, 512, 64]]
    assert told["peak"] < 4 * 16 * 512 * 512, "less than one matrix of weights"


@pytest.mark.parametrize("really", [True, False])
def test_attention_is_arranged_as_on_a_gpu(device: Simulated, really: bool) -> None:
    """The flash kernel follows its inputs; the one that takes float32, or a mask, has positions before heads."""
    program = """
result = []
packed = torch.randn(3, 64, 2, 8, 32, device="cuda")
for dtype, mask in ((torch.bfloat16, None), (torch.float32, None), (torch.bfloat16, torch.zeros(64, 64))):
    q, k, v = (part.permute(1, 2, 0, 3).requires_grad_() for part in packed.to(dtype))
    out = F.scaled_dot_product_attention(q, k, v, mask if mask is None else mask.to("cuda", dtype))
    result.append([out.stride(), torch.autograd.grad(out.sum(), v)[0].stride()])
"""
    told = device.run(f"import without_memory\nresult = without_memory.executed({program!r}, really={really})")
    as_given, positions_first = (256, 32, 512, 1), (64 * 256, 32, 256, 1)
    assert told["result"] == [[[*as_given]] * 2, [[*positions_first]] * 2, [[*positions_first]] * 2]


def test_small_values_are_known(device: Simulated) -> None:
    told = device.run(
        without_memory("""
lengths = torch.tensor([3, 5, 2], device="cuda")
mask = torch.arange(5, device="cuda") < lengths[:, None]
logits = torch.randn(3, 5, 100_000, device="cuda")
result = [logits[mask].shape[0], int(lengths.sum()), torch.linspace(0, 1, 3).tolist(), mask.nonzero().shape[0]]
""")
    )
    assert told["result"] == [10, 10, [0.0, 0.5, 1.0], 10]
    assert told["assumed"] == []


@pytest.mark.slow
def test_what_is_assumed_of_others(device: Simulated) -> None:
    told = device.run(
        without_memory("""
logits = torch.randn(64, 100_000, device="cuda")
mask = logits > 0
shapes = [logits[mask].shape[0], list(mask.nonzero().shape)]
result = [*shapes, logits.mean().item(), bool(mask.any()), float(logits.numpy(force=True)[0, 0])]
""")
    )
    assert told["result"] == [6_400_000, [6_400_000, 2], 0.0, False, 0.0]
    assert told["assumed"] == [
        "a condition on values was taken to be false",
        "a mask of unknown values was taken to select everything",
        "a number was taken to be 0",
        "values read outside of torch were taken to be 0",
    ]


def test_what_is_written_to_a_known_tensor_is_unknown_from_then_on(device: Simulated) -> None:
    told = device.run(
        without_memory("""
small = torch.ones(4, device="cuda")
before = small.sum().item()
small.copy_(torch.randn(4, 100_000, device="cuda").sum(1))
result = [before, small.sum().item()]
""")
    )
    assert told["result"] == [4.0, 0.0]
    assert told["assumed"] == ["a number was taken to be 0"]


def test_shapes_that_do_not_fit_are_refused(device: Simulated) -> None:
    program = "torch.randn(4096, 4096, device='cuda') @ torch.randn(100, 4096, device='cuda')"
    assert "RuntimeError" in device.refusal(without_memory(program))


@pytest.mark.slow
def test_kernels_without_a_function_of_shapes(device: Simulated) -> None:
    """One of the user's own is followed inside; the others are asked what they make of zeros."""
    told = device.run(
        without_memory("""
@torch.library.custom_op("mine::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x, x])
x = torch.randn(512, 1024, device="cuda")
logits = torch.randn(50, 4, 2000, device="cuda").log_softmax(2).requires_grad_()
targets, lengths = torch.ones(4, 9, dtype=torch.long), torch.full((4,), 9)
loss = F.ctc_loss(logits, targets.cuda(), torch.full((4,), 50), lengths)
loss.backward()
packed = nn.utils.rnn.pack_sequence([torch.randn(n, 400) for n in (300, 200)])
result = [list(doubled(x).shape), list(logits.grad.shape), list(packed.data.shape), packed.batch_sizes.sum().item()]
""")
    )
    assert told["result"] == [[1024, 1024], [50, 4, 2000], [500, 400], 500]
    assert told["assumed"] == []


def test_what_cannot_be_followed_is_named(device: Simulated) -> None:
    higher = """
from torch._higher_order_ops.utils import autograd_not_implemented
from torch._ops import HigherOrderOperator
class Unwritten(HigherOrderOperator):
    def __call__(self, *args):
        return super().__call__(*args)
op = Unwritten("unwritten")
op.py_impl(torch._C.DispatchKey.Autograd)(autograd_not_implemented(op, deferred_error=True))
op(lambda x: x, torch.randn(2, 8, 256, 64, device="cuda"))
"""
    assert "Missing: a forecast does not follow unwritten" in device.refusal(without_memory(higher))


def test_operators_that_take_functions_are_followed_inside(device: Simulated) -> None:
    told = device.run(
        without_memory("""
import warnings
from torch._higher_order_ops.cond import cond_op
from torch.nn.attention.flex_attention import flex_attention
warnings.simplefilter("ignore")
q = torch.randn(2, 8, 256, 64, device="cuda", requires_grad=True)
flex_attention(q, q, q, score_mod=lambda score, b, h, i, j: score + i - j).sum().backward()
x = torch.randn(300, 1000, device="cuda")
result = [list(q.grad.shape), list(cond_op(x.sum() > 0, lambda x: x.sum(1), lambda x: x.sum(0), (x,)).shape)]
""")
    )
    assert told["result"] == [[2, 8, 256, 64], [1000]]
    assert told["assumed"] == ["a condition on values was taken to be false"]
    assert told["peak"] > 4 * 2 * 8 * 256 * 256, "where it is not compiled it has its scores in memory"


def test_what_gets_memory_only_now_has_none_either(device: Simulated) -> None:
    told = device.run(
        without_memory("""
with torch.device("meta"):
    model = nn.Linear(1 << 20, 1 << 20)
model.to_empty(device="cuda")
nn.init.normal_(model.weight)
back = [torch.empty_like(model.weight, device="meta"), model.weight.to("meta"), torch.ones(3, device="meta") + 1]
result = [model.weight.device.type, *(tensor.device.type for tensor in back)]
""")
    )
    assert told["result"] == ["cuda", "meta", "meta", "meta"]
    assert told["peak"] == 4 * ((1 << 40) + (1 << 20))


def test_checks_of_the_program_hold(device: Simulated) -> None:
    told = device.run(
        without_memory("""
x = torch.randn(4096, 4096, device="cuda")
result = [bool(torch.isfinite(x).all()), bool(torch.isnan(x).any())]
""")
    )
    assert told["result"] == [True, False]


def test_attention_of_grouped_heads_has_no_weights_in_memory(device: Simulated) -> None:
    told = device.run(
        without_memory("""
q = torch.randn(2, 32, 4096, 128, device="cuda", dtype=torch.bfloat16, requires_grad=True)
k, v = (torch.randn(2, 8, 4096, 128, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(2))
F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).sum().backward()
result = [list(t.grad.shape) for t in (q, k, v)]
""")
    )
    assert told["result"] == [[2, 32, 4096, 128], [2, 8, 4096, 128], [2, 8, 4096, 128]]
    weights = 2 * 2 * 32 * 4096 * 4096
    assert told["peak"] < weights
