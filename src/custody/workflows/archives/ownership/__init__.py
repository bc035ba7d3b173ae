"""Whose a repository is, and who else may write to it."""
