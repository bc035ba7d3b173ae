"""Channels on the dashboard."""
