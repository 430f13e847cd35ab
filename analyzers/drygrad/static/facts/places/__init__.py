"""Where tensors are: devices known by what decides them, followed through the bodies of a file."""
