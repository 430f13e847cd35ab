"""Dry means dry: what keeps a run from leaving a trace, by layers, the best that this system offers first."""
