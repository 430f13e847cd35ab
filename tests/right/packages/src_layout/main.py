"""Train the forecaster of the package below src/, found without an installation."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "src"))

import torch
from torch.utils.data import DataLoader

from tinyforecast import Forecaster, SeriesDataset, evaluate, fit, make_series


def main() -> None:
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    series = make_series(260)
    mean, std = series[:200].mean(), series[:200].std()
    series = (series - mean) / std
    train = DataLoader(SeriesDataset(series[:200], 12), batch_size=32, shuffle=True)
    test = DataLoader(SeriesDataset(series[200:], 12), batch_size=64)
    model = Forecaster().to(device)
    history = fit(model, train, epochs=6)
    print("train", [round(h, 3) for h in history], f"test {evaluate(model, test):.3f}")


if __name__ == "__main__":
    main()
