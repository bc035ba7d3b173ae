"""Files of a revision on disk, and what a task has made of them."""
