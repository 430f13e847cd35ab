"""Family 7: training loop, accumulation, mixed precision."""
