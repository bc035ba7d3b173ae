"""What becomes of single items on the line: failures, deadlines, what a person decides."""
