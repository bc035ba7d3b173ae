"""Ingest on ZooKeeper: the tree of the deployed services is the truth, worked on by them and by us in one fleet.

`store.open_tree(url)` gives a store whose queue is the tree; inventory, items, history and every other kind of work are
in the SQL database named beside it.
"""
