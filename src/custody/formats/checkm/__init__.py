"""Manifests in checkm 0.7: `read` them, `check` them in a dry run; `form` has the kinds and `writer` writes them."""

from custody.formats.checkm.reader import Checked, check, read, scan

__all__ = ["Checked", "check", "read", "scan"]
