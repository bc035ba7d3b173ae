"""Those we are measured against, each driven as its own documentation recommends, in a process of its own.

Python peers live in a virtual environment of the bench's own, Node peers in a folder of their own: neither touches
the project's lock. Both are made when first needed. A contestant is a process that reads requests as lines of JSON
and answers each with one line; ours is driven in exactly the same way.
"""
