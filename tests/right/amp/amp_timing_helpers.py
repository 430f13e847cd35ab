"""Compare default and mixed precision by the helpers start_timer and end_timer_and_print."""
import gc
import time

import torch

start_time = None
device = "cuda" if torch.cuda.is_available() else "cpu"


def start_timer():
    global start_time
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
    start_time = time.perf_counter()


def end_timer_and_print(local_msg):
    if device == "cuda":
        torch.cuda.synchronize()
    end_time = time.perf_counter()
    print(local_msg)
    print(f"  total execution time = {end_time - start_time:.3f} s")
    if device == "cuda":
        print(f"  max memory used by tensors = {torch.cuda.max_memory_allocated()} bytes")


def make_model(in_size, out_size, num_layers):
    layers = []
    for _ in range(num_layers - 1):
        layers.append(torch.nn.Linear(in_size, in_size))
        layers.append(torch.nn.ReLU())
    layers.append(torch.nn.Linear(in_size, out_size))
    return torch.nn.Sequential(*layers).to(device)


batch_size, in_size, out_size, num_layers, num_batches, epochs = 32, 64, 16, 3, 10, 2
torch.manual_seed(0)
data = [torch.randn(batch_size, in_size, device=device) for _ in range(num_batches)]
targets = [torch.randn(batch_size, out_size, device=device) for _ in range(num_batches)]
loss_fn = torch.nn.MSELoss()

net = make_model(in_size, out_size, num_layers)
opt = torch.optim.SGD(net.parameters(), lr=0.001)

start_timer()
for epoch in range(epochs):
    for x, target in zip(data, targets):
        output = net(x)
        loss = loss_fn(output, target)
        loss.backward()
        opt.step()
        opt.zero_grad()
end_timer_and_print("Default precision:")

use_amp = device == "cuda"
net = make_model(in_size, out_size, num_layers)
opt = torch.optim.SGD(net.parameters(), lr=0.001)
scaler = torch.amp.GradScaler(device, enabled=use_amp)

start_timer()
for epoch in range(epochs):
    for x, target in zip(data, targets):
        with torch.autocast(device_type=device, dtype=torch.float16 if use_amp else torch.bfloat16):
            output = net(x)
            loss = loss_fn(output.float(), target)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
end_timer_and_print("Mixed precision:")
