"""Archives in Subversion."""
