"""Identifiers: minted elsewhere, and taken by one object each."""
