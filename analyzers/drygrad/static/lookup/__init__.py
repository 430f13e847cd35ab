"""What an imported name is, found in other modules' text: a light look-up first, jedi in a helper process after it.

Nothing here imports or executes the modules that it reads.
"""
