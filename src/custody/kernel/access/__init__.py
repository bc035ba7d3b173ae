"""Who is asking, and what they may: callers, rights, tokens."""
