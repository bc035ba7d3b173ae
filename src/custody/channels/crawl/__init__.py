"""Walking through a channel, and what one answer proves."""
