"""Asking torch what it is: what `tools/make_torchmodel.py` writes down."""
