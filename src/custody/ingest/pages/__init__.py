"""Deposits on the dashboard."""
