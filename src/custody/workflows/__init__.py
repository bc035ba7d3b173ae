"""Workflows: versioned archives whose commits run their own files; `definition`, `plan`, `tasks`, `archives`."""
