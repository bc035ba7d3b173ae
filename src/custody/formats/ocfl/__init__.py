"""The Oxford Common File Layout, as text and values."""
