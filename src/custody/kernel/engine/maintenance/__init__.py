"""What workers do besides: the loop that looks after things, passes over many jobs, chores of one among many."""
