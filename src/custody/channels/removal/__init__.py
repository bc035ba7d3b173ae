"""Taking a channel out of the archive: what was ordered, and what is then deleted."""
