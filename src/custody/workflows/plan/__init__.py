"""Which tasks a revision runs, and in which order."""
