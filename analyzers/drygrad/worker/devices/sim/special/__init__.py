"""Kernels that are not the host's own."""
