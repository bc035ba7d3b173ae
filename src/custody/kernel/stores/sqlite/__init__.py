"""SQLite: one file, one writer at a time, every commit on disk before it is acknowledged."""
