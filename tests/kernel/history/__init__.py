"""The history: sealed, witnessed, proved, exported; and attacked."""
