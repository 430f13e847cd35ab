"""Several ranks of one program: each a process of its own, by turns, with collectives that exchange values."""
