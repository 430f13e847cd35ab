"""What docs/found.md claims, tried again: the faults in released packages, each proven by its program."""
