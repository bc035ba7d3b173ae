"""The rules of jobs and items in SQL, the same on every database."""
