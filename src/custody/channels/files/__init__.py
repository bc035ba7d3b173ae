"""The files that messages name."""
