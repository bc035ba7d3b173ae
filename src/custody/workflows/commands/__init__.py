"""custody archive: one file per group of verbs; `archive` is the door."""
