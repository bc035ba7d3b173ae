"""Ingest: deposits become preserved objects."""
