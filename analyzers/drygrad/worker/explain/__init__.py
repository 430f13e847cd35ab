"""From a check that failed, or torch's own text, to a sentence in the user's words."""
