"""custody channel: one file per group of verbs; `channel` is the door."""
