"""Family 9: what drygrad reports of itself and of the text; these rules have no visitor."""
