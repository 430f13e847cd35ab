"""Family 4: numerics (NaN, Inf, half precision)."""
