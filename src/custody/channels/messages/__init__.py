"""Messages as they are kept: versions, what was last seen of them, deletions."""
