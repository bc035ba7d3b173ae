"""Talking with ZooKeeper: a session, packets, several changes at once."""
