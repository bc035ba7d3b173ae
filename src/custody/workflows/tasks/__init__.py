"""Running a task: its sandbox, its image, its secrets, what it commits."""
