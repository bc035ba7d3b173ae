"""Robots on the dashboard."""
