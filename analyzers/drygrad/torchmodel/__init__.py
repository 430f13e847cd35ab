"""What torch is: its operations and modules, as torch itself tells (`tools/make_torchmodel.py` asks it)."""
