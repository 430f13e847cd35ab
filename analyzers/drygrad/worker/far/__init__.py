"""What receives the worker on a machine that does not have drygrad: one file unpacks it, one stays beside it."""
