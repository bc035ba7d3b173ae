"""What becomes of the work of those who are gone: rescued, suspected, or stopped where it strays."""
