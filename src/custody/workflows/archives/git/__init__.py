"""Archives in git."""
