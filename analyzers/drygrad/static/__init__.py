"""The static witness: what the text alone can prove."""
