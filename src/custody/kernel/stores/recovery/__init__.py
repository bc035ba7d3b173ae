"""Stores that were put back from a copy: what was lost, and how it is said."""
