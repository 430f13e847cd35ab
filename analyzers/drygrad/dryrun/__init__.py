"""The second witness: what to run, on which inputs, in which process, and what its result says."""
