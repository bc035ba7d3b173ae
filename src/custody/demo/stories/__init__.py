"""What the demo shows, one story per application."""
