"""Custody: a durable work engine for archives."""

__version__ = "0.1.0"
