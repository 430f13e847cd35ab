"""A pygls server without the weak points of plain pygls; nothing in here knows of PyTorch."""
