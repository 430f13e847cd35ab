"""What if: the program traced once more with something different, and what that saves."""
