"""Robots that are programs in a sandbox."""
