"""Versioned archives: a port, the rows, and what tells of new revisions."""
