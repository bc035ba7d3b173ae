"""custody robot: one file per group of verbs; `robot` is the door."""
