"""Calibrate a classifier after training by fitting one temperature, and measure the calibration error."""
import torch
from torch import Tensor, nn
import torch.nn.functional as F


class TemperatureScaler(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.log_t = nn.Parameter(torch.zeros(()))

    def forward(self, logits: Tensor) -> Tensor:
        return logits / self.log_t.exp()

    def fit(self, logits: Tensor, labels: Tensor) -> None:
        opt = torch.optim.LBFGS(self.parameters(), lr=0.5, max_iter=30)

        def closure() -> Tensor:
            opt.zero_grad()
            loss = F.cross_entropy(self(logits), labels)
            loss.backward()
            return loss

        opt.step(closure)


def expected_calibration_error(logits: Tensor, labels: Tensor, n_bins: int = 10) -> Tensor:
    conf, pred = logits.softmax(dim=1).max(dim=1)
    edges = torch.linspace(0, 1, n_bins + 1, device=logits.device)[1:-1]
    bins = torch.bucketize(conf, edges)
    hit = (pred == labels).to(conf.dtype)
    ones = torch.ones_like(conf)
    count = torch.zeros(n_bins, device=conf.device).scatter_add_(0, bins, ones)
    conf_sum = torch.zeros_like(count).scatter_add_(0, bins, conf)
    hit_sum = torch.zeros_like(count).scatter_add_(0, bins, hit)
    return (conf_sum - hit_sum).abs().sum() / labels.numel()


def noisy_task(n: int, device: torch.device) -> tuple[Tensor, Tensor]:
    x = torch.randn(n, 10, device=device)
    clean = x[:, :4].argmax(1)
    flip = torch.rand(n, device=device) < 0.25
    return x, torch.where(flip, torch.randint(4, (n,), device=device), clean)


def main() -> None:
    torch.manual_seed(8)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x, y = noisy_task(200, device)
    x_cal, y_cal = noisy_task(300, device)
    x_test, y_test = noisy_task(600, device)
    net = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 4)).to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(150):
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        cal_logits, test_logits = net(x_cal), net(x_test)
    scaler = TemperatureScaler().to(device)
    scaler.fit(cal_logits, y_cal)
    with torch.no_grad():
        before = expected_calibration_error(test_logits, y_test)
        after = expected_calibration_error(scaler(test_logits), y_test)
        print(f"temperature {scaler.log_t.exp().item():.2f}, ECE {before.item():.3f} -> {after.item():.3f}")


if __name__ == "__main__":
    main()
