"""Mixed precision with GradScaler: unscale before clipping, skip the schedule when a step was skipped."""
import torch
import torch.nn as nn
from torch.amp import GradScaler, autocast

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
use_amp = device.type == "cuda"
dtype = torch.float16 if use_amp else torch.bfloat16

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=60)
scaler = GradScaler(device.type, enabled=use_amp)
criterion = nn.CrossEntropyLoss()
teacher = torch.randn(16, 4, device=device)

for step in range(60):
    x = torch.randn(64, 16, device=device)
    y = (x @ teacher).argmax(dim=1)
    optimizer.zero_grad(set_to_none=True)
    with autocast(device.type, dtype=dtype):
        logits = model(x)
        loss = criterion(logits, y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
    scale_before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    if scaler.get_scale() >= scale_before:
        scheduler.step()
    if step % 20 == 0:
        print(f"step {step}: loss {loss.item():.3f} norm {norm.item():.3f} lr {scheduler.get_last_lr()[0]:.5f}")

model.eval()
with torch.no_grad(), autocast(device.type, dtype=dtype):
    x = torch.randn(256, 16, device=device)
    pred = model(x).float().argmax(1)
print("agreement", (pred == (x @ teacher).argmax(1)).float().mean().item())
