"""Family 2: devices."""
