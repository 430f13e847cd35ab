"""Family 8: API, data, security."""
