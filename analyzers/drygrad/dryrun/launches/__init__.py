"""How users start their programs: commands as they type them, and as a project's files have them."""
