"""A denoising autoencoder that squeezes structured vectors through a narrow bottleneck."""
from typing import Tuple

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class DenoisingAutoencoder(nn.Module):
    def __init__(self, n_in: int = 32, n_code: int = 4, noise_std: float = 0.2) -> None:
        super().__init__()
        self.noise_std = noise_std
        self.encoder = nn.Sequential(nn.Linear(n_in, 24), nn.ReLU(inplace=True), nn.Linear(24, n_code))
        self.decoder = nn.Sequential(nn.Linear(n_code, 24), nn.ReLU(inplace=True), nn.Linear(24, n_in))

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        if self.training:
            x = x + self.noise_std * torch.randn_like(x)
        code = self.encoder(x)
        return self.decoder(code), code


def low_rank_data(n: int, dim: int = 32, rank: int = 3, seed: int = 0) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    basis = torch.randn(rank, dim, generator=g) / rank**0.5
    return torch.randn(n, rank, generator=g) @ basis


def fit(model: DenoisingAutoencoder, loader: DataLoader, epochs: int, device: torch.device) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-4)
    criterion = nn.MSELoss()
    model.train()
    for epoch in range(epochs):
        running = torch.zeros((), device=device)
        seen = 0
        for (batch,) in loader:
            clean = batch.to(device)
            optimizer.zero_grad(set_to_none=True)
            reconstruction, _ = model(clean)
            loss = criterion(reconstruction, clean)
            loss.backward()
            optimizer.step()
            running += loss.detach() * clean.shape[0]
            seen += clean.shape[0]
        if (epoch + 1) % 5 == 0:
            print(f"[{epoch + 1:02d}] train mse = {(running / seen).item():.4f}")


def evaluate(model: DenoisingAutoencoder, data: Tensor, device: torch.device) -> float:
    model.eval()
    with torch.inference_mode():
        out, _ = model(data.to(device))
        return nn.functional.mse_loss(out, data.to(device)).item()


def main() -> None:
    torch.manual_seed(3)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    everything = low_rank_data(640)
    train, held_out = everything[:512], everything[512:]
    model = DenoisingAutoencoder().to(device)
    fit(model, DataLoader(TensorDataset(train), batch_size=64, shuffle=True), epochs=15, device=device)
    print(f"held-out mse = {evaluate(model, held_out, device):.4f}")


if __name__ == "__main__":
    main()
