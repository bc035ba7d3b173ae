"""A batch from beginning to end: what is reported, notified, linked and cleaned away."""
