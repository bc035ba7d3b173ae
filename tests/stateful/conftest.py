"""The stores of the conformance suite, for the machine that compares them with the model."""

from __future__ import annotations

from kernel.stores.conftest import emptied, quick_folder, quick_postgres

__all__ = ["emptied", "quick_folder", "quick_postgres"]
