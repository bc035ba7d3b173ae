"""custody batch."""
