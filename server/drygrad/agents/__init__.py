"""A Model Context Protocol server: what the command line does, as tools for coding agents."""
