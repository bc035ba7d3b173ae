"""What is done to jobs of a tree, one file per verb."""
