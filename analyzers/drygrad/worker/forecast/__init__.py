"""What a program would take on a GPU: traced at its real size, without the memory and without the arithmetic."""
