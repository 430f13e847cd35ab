"""Where the arguments of a run come from; one file for each kind of source."""
