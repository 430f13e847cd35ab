"""What a trainer calls before it begins: the job's own command is dry-run first. A dry run itself passes over it."""

within_a_dry_run = False
"""Whether this process is a worker's, which says so."""
