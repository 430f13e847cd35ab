"""Forecasting of short series with a small recurrent network."""
from .data import SeriesDataset, make_series
from .model import Forecaster
from .training import evaluate, fit

__all__ = ["Forecaster", "SeriesDataset", "evaluate", "fit", "make_series"]
