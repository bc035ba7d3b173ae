"""Fetching from hosts that are not to be trusted."""
