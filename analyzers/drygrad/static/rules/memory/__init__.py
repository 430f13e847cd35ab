"""Family 5: memory."""
