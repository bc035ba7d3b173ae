"""A command as a process: what it prints and logs, and what signals ask of it."""
