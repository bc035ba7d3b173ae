"""A missing service is a skip on a laptop and a failure in CI, where a skip would look like a pass."""

from __future__ import annotations

import pytest

from rig.install import how, in_ci, missing, wanted


def need(*names: str) -> None:
    """Say at the start of a test or fixture which services it cannot do without."""
    for service in missing(wanted(names)):
        message = f"{service.name} is not installed ({service.why}); {how(service)}"
        if in_ci():
            pytest.fail(message, pytrace=False)
        pytest.skip(message)
