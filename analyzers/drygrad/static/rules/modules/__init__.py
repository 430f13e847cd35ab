"""Family 7, second half: how modules are written (DG74x)."""
