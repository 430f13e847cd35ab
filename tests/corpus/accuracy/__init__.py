"""How well drygrad finds the faults of the corpus: reading its programs, examining them, judging what was found."""
