"""Running programs that are not to be trusted."""
