"""The figures of memory are those of the caching allocator, in bytes."""

from __future__ import annotations

from simulated import Simulated

MIB = 1 << 20


def test_live_storages_are_counted_in_granules(sim: Simulated) -> None:
    code = """
seen = [torch.cuda.memory_allocated()]
x = torch.ones(3, device="cuda"); seen.append(sim.memory.allocated())
y = torch.ones(1024, device="cuda"); seen.append(sim.memory.allocated())
view = y[3:].view(-1, 1); again = y.data; seen.append(sim.memory.allocated())
del y; seen.append(sim.memory.allocated())
del view, again; seen.append(sim.memory.allocated())
del x; seen.append(sim.memory.allocated())
result = seen
"""
    assert sim.run(code) == [0, 512, 512 + 4096, 512 + 4096, 512 + 4096, 512, 0]


def test_the_peak_of_a_step(sim: Simulated) -> None:
    code = """
x = torch.ones(1 << 18, device="cuda", requires_grad=True)
before = torch.cuda.memory_allocated()
y = (x * 2).exp()
during = torch.cuda.memory_allocated()
y.sum().backward()
del y
result = [before, during, torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()]
torch.cuda.reset_peak_memory_stats()
result += [torch.cuda.max_memory_allocated(), torch.cuda.memory_stats()["allocated_bytes.all.current"]]
"""
    before, during, after, peak, reset, stats = sim.run(code)
    assert before == MIB
    assert during == 2 * MIB  # x * 2 is nobody's: exp saves its result
    assert after == 2 * MIB  # x and its gradient
    assert 3 * MIB <= peak <= 4 * MIB + 1024
    assert reset == stats == after


def test_an_optimizer_holds_two_states(sim: Simulated) -> None:
    code = """
model = nn.Linear(256, 1024, bias=False).cuda()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    optimizer.zero_grad()
    model(torch.ones(1, 256, device="cuda")).sum().backward()
    optimizer.step()
result = torch.cuda.memory_allocated()
"""
    assert sim.run(code) == 4 * MIB


def test_what_does_not_fit_is_refused_in_the_words_of_cuda(two: Simulated) -> None:
    code = "x = torch.empty(1 << 17, device='cuda'); torch.empty(1 << 18, device='cuda')"
    message = two.refusal(code)
    assert message.startswith(
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 1024.00 KiB. GPU 0 has a total capacity of "
        "1024.00 KiB of which 512.00 KiB is free."
    )


def test_more_than_any_host_has_is_out_of_memory_too(sim: Simulated) -> None:
    message = sim.refusal("torch.empty(1 << 46, device='cuda')")
    assert "CUDA out of memory. Tried to allocate 262144.00 GiB" in message


def test_freed_memory_can_be_had_again(two: Simulated) -> None:
    code = """
for _ in range(4):
    x = torch.empty(3 << 16, device="cuda")
    del x
y = torch.empty(3 << 16, device="cuda:1")
result = [sim.memory.allocated(0), sim.memory.allocated(1), torch.cuda.memory_allocated("cuda:1")]
result += torch.cuda.mem_get_info(0)
"""
    size = (3 << 16) * 4
    assert two.run(code) == [0, size, size, MIB, MIB]


def test_growing_a_tensor_moves_it(sim: Simulated) -> None:
    code = """
x = torch.ones(2, device="cuda")
x.resize_(1024)
y = torch.empty(0, device="cuda")
torch.add(x, x, out=y)
result = [sim.memory.allocated(), list(y.shape), x[:2].tolist()]
"""
    assert sim.run(code) == [2 * 4096, [1024], [1.0, 1.0]]
