"""Archives on the dashboard."""
