# target: main
"""Rates of flow from the counters of a water meter."""
import csv
import io
import random

import torch


def export(readings=200, seed=0):
    """CSV as the gateway writes it: unix seconds, litres since installation."""
    rng = random.Random(seed)
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["time", "litres"])
    now, litres = 1_700_000_000.0, 52.0
    for _ in range(readings):
        now += 10 + rng.uniform(-0.5, 0.5)
        litres += max(0.0, rng.gauss(1.5, 0.5))
        writer.writerow([f"{now:.3f}", f"{litres:.3f}"])
    return out.getvalue()


class MeterLog:
    def __init__(self, columns):
        self.columns = columns

    @classmethod
    def parse(cls, text):
        rows = list(csv.DictReader(io.StringIO(text)))
        names = rows[0].keys()
        return cls({n: torch.tensor([float(r[n]) for r in rows], dtype=torch.float64) for n in names})

    def __getitem__(self, name):
        return self.columns[name]

    def rate(self):
        """Litres per minute between neighbouring readings."""
        seconds = self["time"].diff()
        return 60 * self["litres"].diff() / seconds

    def hour_of_day(self):
        return (self["time"] % 86400) / 3600


def smooth(rate, width=5):
    kernel = torch.full((1, 1, width), 1.0 / width, dtype=rate.dtype)
    return torch.nn.functional.conv1d(rate[None, None], kernel)[0, 0]


def leaks(rate, floor=2.0, run=30):
    """Spans in which the smoothed rate never falls to the floor."""
    above = (rate > floor).tolist()
    spans, start = [], None
    for i, flag in enumerate(above + [False]):
        if flag and start is None:
            start = i
        elif not flag and start is not None:
            if i - start >= run:
                spans.append((start, i))
            start = None
    return spans


def main():
    log = MeterLog.parse(export())
    rate = smooth(log.rate())
    print(f"mean {rate.mean().item():.2f} l/min, max {rate.max().item():.2f} l/min")
    print("from hour %.2f" % log.hour_of_day()[0].item(), "spans", leaks(rate))
    return rate


if __name__ == "__main__":
    main()
