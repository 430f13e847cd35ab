"""Family 6: synchronisation, hangs, speed."""
