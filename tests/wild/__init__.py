"""How many of the faults that other people fixed are found in their whole projects, unaided."""
