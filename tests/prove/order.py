"""In which order a proof runs its tests: the longest first, so that the processes which share them end together; what
has to be alone last, when nobody has long to be waited for."""

from __future__ import annotations

import pytest

LONGEST = (
    "test_workers_killed_at_random_lose_nothing_and_settle_nothing_twice",
    "test_a_manifest_of_sixty_thousand_rows_runs_through_and_every_folder_can_be_listed",
    "test_nothing_is_lost_doubled_or_left_standing_whatever_goes_wrong",
)


def place(item: pytest.Item) -> tuple[bool, int]:
    name = getattr(item, "originalname", item.name)
    alone = item.get_closest_marker("alone") is not None
    return alone, LONGEST.index(name) if name in LONGEST else len(LONGEST)
