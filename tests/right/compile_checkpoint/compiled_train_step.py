"""torch.compile of a model, eager weights shared with it; saving goes through the original module."""
import io

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
BACKEND = "inductor" if device.type == "cuda" else "aot_eager"  # needs no C++ compiler on a CPU


class MLP(nn.Module):
    def __init__(self, n_in, n_out, hidden=32):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(n_in, hidden), nn.Linear(hidden, n_out)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


raw_model = MLP(8, 3).to(device)
model = torch.compile(raw_model, backend=BACKEND)
optimizer = torch.optim.AdamW(raw_model.parameters(), lr=1e-2)

for step in range(60):
    x = torch.randn(64, 8, device=device)
    y = x[:, :3].argmax(dim=1)
    optimizer.zero_grad(set_to_none=True)
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step}: {loss.item():.3f}")

buffer = io.BytesIO()
torch.save(raw_model.state_dict(), buffer)
buffer.seek(0)
restored = MLP(8, 3).to(device)
restored.load_state_dict(torch.load(buffer, map_location=device, weights_only=True))

raw_model.eval()
restored.eval()
with torch.no_grad():
    probe = torch.randn(16, 8, device=device)
    torch.testing.assert_close(model(probe), restored(probe), atol=1e-4, rtol=1e-4)
print("compiled and restored outputs agree")
