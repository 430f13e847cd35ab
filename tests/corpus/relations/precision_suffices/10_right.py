"""Fit a polynomial trend to daily readings and extrapolate a few days."""
import torch


def design(days, degree):
    t = days / days.max()
    return torch.stack([t ** k for k in range(degree + 1)], dim=1)


def fit_polynomial(days, values, degree=5):
    x = design(days, degree)
    return torch.linalg.lstsq(x, values.unsqueeze(1)).solution.squeeze(1)


def predict(coef, days, scale):
    t = days / scale
    powers = torch.stack([t ** k for k in range(len(coef))], dim=1)
    return powers @ coef


def residual_report(coef, days, values):
    error = values - predict(coef, days, days.max())
    return {
        "rmse": error.pow(2).mean().sqrt().item(),
        "worst": error.abs().max().item(),
        "bias": error.mean().item(),
    }


def readings(n=90, seed=0):
    g = torch.Generator().manual_seed(seed)
    days = torch.arange(1, n + 1).float()
    trend = 12 + 6 * torch.sin(days / 25) + 0.04 * days
    return days, trend + 0.3 * torch.randn(n, generator=g)


def main():
    days, values = readings()
    coef = fit_polynomial(days, values)
    report = residual_report(coef, days, values)
    ahead = torch.arange(91, 96).float()
    print({k: round(v, 3) for k, v in report.items()})
    print("next days", [round(v, 2) for v in predict(coef, ahead, days.max()).tolist()])


if __name__ == "__main__":
    main()
