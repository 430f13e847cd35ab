"""The kinds of files that have launches: each reads the text of one."""
