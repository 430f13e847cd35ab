"""Family 3: losses, shapes, dtypes, index ranges."""
