"""The program that runs the user's function under instruments, in the user's own interpreter.

It is started by path and needs the standard library and torch, nothing else; nothing of drygrad imports it.
"""
