"""Family 9: relations that right programs keep between two runs. Experiments try them; no rule has a visitor."""
