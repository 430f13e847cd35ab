"""The search for inputs: propose, execute, read the error, repair, repeat; bounded in time, in a process of its own."""
