"""Robots that are useful on day one, for objects that ingest has stored: `custody robot run custody.robots.ready`.

The virus scan is among them where CUSTODY_CLAMD says where clamd is. `custody.robots.ready.text` is a program of its
own, as an example of one.
"""

import os

from custody.robots.ready.bags import bags
from custody.robots.ready.fixity import fixity
from custody.robots.ready.formats import formats
from custody.robots.ready.validation import ocfl as ocfl_objects

__all__ = ["bags", "fixity", "formats", "ocfl_objects"]

if os.environ.get("CUSTODY_CLAMD"):
    from custody.robots.ready.virus import virus

    __all__ += ["virus"]
