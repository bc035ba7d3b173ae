"""A missing service is a skip on a laptop and a failure in CI, where a skip would look like a pass.

One that the table marks as `later` is not yet installed by default, and may be missing in CI as well.
"""

from __future__ import annotations

import pytest

from rig.install import how, in_ci, missing, wanted


def need(*names: str) -> None:
    """Say at the start of a test or fixture which services it cannot do without."""
    for service in missing(wanted(names)):
        message = f"{service.name} is not installed ({service.why}); {how(service)}"
        if in_ci() and not service.later:
            pytest.fail(message, pytrace=False)
        pytest.skip(message)
