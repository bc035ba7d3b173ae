"""Discord: asked within its limits, and read without trusting it."""
