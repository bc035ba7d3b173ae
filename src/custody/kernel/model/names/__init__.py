"""Which names people and programs may give, and which are the system's own."""
