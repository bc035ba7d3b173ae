"""Who is let in, and how much at once."""
