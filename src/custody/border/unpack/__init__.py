"""Unpacking containers that are not to be trusted."""
