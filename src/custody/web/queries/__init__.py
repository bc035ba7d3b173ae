"""What pages and API read."""
