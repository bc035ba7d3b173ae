"""Workflow files: what may be written in one, and what it means."""
