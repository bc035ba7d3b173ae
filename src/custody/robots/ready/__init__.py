"""Robots that are useful on day one, for objects that ingest has stored: `custody robot run custody.robots.ready`."""

from custody.robots.ready.fixity import fixity
from custody.robots.ready.formats import formats

__all__ = ["fixity", "formats"]
