"""Family 1: autograd and in-place writes."""
