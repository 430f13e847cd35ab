"""One package a family, one file a rule. The registry finds every Rule subclass here by itself."""
